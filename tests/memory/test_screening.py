"""Screens with surprise and with relevance trained end to end, and the bounds of a screened GRU."""

import pytest
import torch
from torch.nn.functional import logsigmoid

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, FunctionCell
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.config.run_config import RunConfig
from mnemoscope.memory.attention import Attentive, RelevanceScreen
from mnemoscope.networks.attentive import relgru
from tests.slow import SLOW, representatives

SCORES = ["surprise", "learned"]
ROUNDING = 1e-12  # float64, sums of some tens of terms of order 1


def made(score, kind="elman", **options):
    cell = {"elman": lambda: Elman(5, 12, "tanh"), "lstm": lambda: LSTM(5, 12)}[kind]()
    attentive = Attentive(cell, RelevanceScreen(3, 4, score), **options).double()
    with torch.no_grad():
        for name, parameter in attentive.named_parameters():
            if name in ("alignment.direction", "judge.g.2.weight"):
                parameter.mul_(10)
    return attentive


def reference(cell, xs, score):
    """Return the macro-states of one sample, and the steps kept at the end, computed with lists."""
    inner, align, nu, rho = cell.cell.initial_state(1), cell.alignment, 3, 4
    s, buffer, relevant, outputs = cell.cell.output(inner), [], [], []
    for t, x in enumerate(xs):
        wrong = cell.judge.predict(s) - x if score == "surprise" else None
        inner = cell.cell(x[None], s if torch.is_tensor(inner) else inner._replace(h=s))
        h = cell.cell.output(inner)
        if wrong is None:
            log_r = logsigmoid(cell.judge.g(h))[0, 0]
            buffer.append((h, log_r, float(log_r.exp().detach()), t))
        else:
            buffer.append((h, 0.0, float(wrong.square().sum().detach()), t))
        if len(buffer) > nu:
            leaving = buffer.pop(0)
            least = min(range(len(relevant)), key=lambda i: relevant[i][2], default=None)
            if len(relevant) < rho:
                relevant.append(leaving)
            elif leaving[2] > relevant[least][2]:
                relevant[least] = leaving
        rows = buffer + relevant
        e = [
            (align.direction * torch.tanh(align.query.weight @ s[0] + align.key.weight @ m[0])).sum() + bias
            for m, bias, _, _ in rows
        ]
        a = torch.softmax(torch.stack(e), 0)
        s = h + sum(weight * m for weight, (m, *_) in zip(a, rows, strict=True))
        outputs.append(s[0])
    return torch.stack(outputs), {t for *_, t in relevant}


def gradients(cell, xs, outputs):
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    parameters = [p for name, p in cell.named_parameters() if "predict" not in name]
    return torch.autograd.grad((outputs * weights).sum(), [xs, *parameters])


def gap(one, other):
    return max(float(((a - b).abs().max() / (1 + b.abs().max())).detach()) for a, b in zip(one, other, strict=True))


@representatives("surprise-elman-loop", "learned-lstm-fused")
@pytest.mark.parametrize("backend", ["loop", "fused"])
@pytest.mark.parametrize("kind", ["elman", "lstm"])
@pytest.mark.parametrize("score", SCORES)
def test_screening_matches_a_loop_over_samples_and_states(score, kind, backend):
    torch.manual_seed(1)
    cell = made(score, kind)
    xs = torch.randn(20, 2, 5, dtype=torch.float64, requires_grad=True)
    slow = torch.stack([reference(cell, xs[:, sample], score)[0] for sample in range(2)], dim=1)
    kept = [reference(cell, xs[:, sample], score)[1] for sample in range(2)]
    assert kept[0] != {0, 1, 2, 3}  # relevance, not the first come
    fast, _ = ms.scan(cell, xs, backend=backend)
    assert gap([fast], [slow]) <= ROUNDING
    found = gradients(cell, xs, fast)
    assert gap(found, gradients(cell, xs, slow)) <= ROUNDING
    if score == "learned":
        assert all(one.abs().max() > 0 for one in found)  # g learns from the loss


@representatives("surprise-options0-False", "learned-options2-True")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", [{}, {"alignment": "dot", "heads": 3}, {"heads": 2, "combine": "concatenate"}])
@pytest.mark.parametrize("score", SCORES)
def test_scan_equals_the_loop_of_steps(score, options, masked):
    torch.manual_seed(2)
    cell = made(score, scale=0.5, **options)
    xs = torch.randn(17, 4, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(17, 4) > 0.3 if masked else None
    found = []
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs, mask=mask, backend=backend)
        total = (outputs * torch.arange(12.0)).sum() + state.rows.square().sum()
        wanted = [xs, *(p for name, p in cell.named_parameters() if "predict" not in name)]
        found.append([outputs, *leaves(state), *torch.autograd.grad(total, wanted)])
    assert gap(*found) <= ROUNDING


@pytest.mark.parametrize("score", ["published", "learned"])
@pytest.mark.parametrize("batch", [1, 2])
def test_gradients_of_a_start_are_those_of_the_steps_and_scores_have_none(score, batch):
    torch.manual_seed(5)
    cell = made(score)
    start = ms.scan(cell, torch.randn(5, batch, 5, dtype=torch.float64))[1]
    start = map_state(lambda part: part.detach().clone().requires_grad_(), start)
    before = [part.detach().clone() for part in leaves(start)]
    xs = torch.randn(6, batch, 5, dtype=torch.float64)
    found = []
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs, start, backend=backend)
        total = outputs.square().sum() + state.rows.sum()
        found.append([outputs, *torch.autograd.grad(total, [start.s, start.rows])])
        if backend == "fused":
            assert not state.score.requires_grad
            assert not state.filled.requires_grad
    assert gap(*found) <= ROUNDING
    assert all(map(torch.equal, leaves(start), before))


@pytest.mark.parametrize("score", SCORES)
def test_jacobian_matches_finite_differences(score):
    torch.manual_seed(3)
    cell = Attentive(Elman(2, 3, "tanh"), RelevanceScreen(2, 2, score)).double()
    dynamics = ms.Dynamics(cell, torch.randn(2))
    state = dynamics.flatten(ms.scan(cell, torch.randn(9, 1, 2, dtype=torch.float64))[1])
    J, step = dynamics.jacobian(state)[0], 1e-6
    for column in range(0, dynamics.size, 4):
        e = torch.zeros(dynamics.size, dtype=torch.float64)
        e[column] = step
        difference = (dynamics(state + e) - dynamics(state - e))[0] / (2 * step)
        torch.testing.assert_close(J[:, column], difference, rtol=0, atol=1e-8)  # truncation step^2, rounding 1e-10


@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_surprise_penalty_is_the_mean_error_and_trains_only_the_predictor(backend):
    torch.manual_seed(4)
    cell = made("surprise")
    xs = torch.randn(11, 3, 5, dtype=torch.float64)
    assert cell.judge.penalty() is None
    outputs, _ = ms.scan(cell, xs, backend=backend)
    penalty = cell.judge.penalty()
    before = torch.cat([torch.zeros(1, 3, 12, dtype=torch.float64), outputs[:-1]]).detach()
    expected = (xs - cell.judge.predict(before)).square().sum(-1).mean()
    torch.testing.assert_close(penalty, expected, rtol=0, atol=ROUNDING)
    own = list(cell.judge.parameters())
    for one, other in zip(
        torch.autograd.grad(penalty, own, retain_graph=True), torch.autograd.grad(expected, own), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=ROUNDING)
    rest = [p for name, p in cell.named_parameters() if "predict" not in name]
    assert all(one is None for one in torch.autograd.grad(penalty, rest, allow_unused=True))
    assert cell.judge.penalty() is None  # asked for once
    ms.scan(cell.eval(), xs, backend=backend)
    with torch.no_grad():
        ms.scan(cell.train(), xs, backend=backend)
    assert cell.judge.penalty() is None


def test_masked_steps_do_not_count_in_the_penalty():
    torch.manual_seed(5)
    cell = made("surprise")
    xs, mask = torch.randn(9, 2, 5, dtype=torch.float64), torch.ones(9, 2, dtype=torch.bool)
    mask[4:, 1] = False
    ms.scan(cell, xs, mask=mask)
    together = float(cell.judge.penalty().detach())
    errors = []
    for sample, length in ((0, 9), (1, 4)):
        ms.scan(cell, xs[:length, sample : sample + 1])
        errors.append(float(cell.judge.penalty().detach()) * length)
    assert together == pytest.approx(sum(errors) / 13, rel=1e-12)


@SLOW
def test_training_adds_the_penalty(tmp_path):
    """The task loss has no gradient for the predictor, but the penalty trains it."""
    options = {"short_term": 3, "relevant": 3, "score": "surprise"}
    config = RunConfig(
        "s",
        task="copy",
        task_options={"delay": 5, "symbols": 2},
        cell="relrnn",
        cell_options=options,
        hidden_size=8,
        steps=30,
        batch_size=8,
        learning_rate=2e-2,
        evaluate_every=30,
    )
    errors = []

    def look(info):
        xs = torch.nn.functional.one_hot(torch.randint(8, (12, 8), generator=torch.Generator().manual_seed(0)), 10)
        with torch.enable_grad():
            ms.scan(info.model.cell, xs.float())
        errors.append(float(info.model.cell.judge.penalty().detach()))

    result = ms.training.train(config, tmp_path, progress=False, callbacks=[look])
    assert result.steps == 30
    assert errors[-1] < 0.9 * errors[0]


def symbols_among_blanks(batch, generator, last=15):
    """A symbol of two at one of the first `last` of 16 steps, blanks with some noise, and a marker at the end where the
    symbol is asked for: inputs (16, batch, 4), the symbols, and where they are.
    """
    xs = 0.1 * torch.randn(16, batch, 4, generator=generator)
    which, where = (torch.randint(number, (batch,), generator=generator) for number in (2, last))
    xs[where, torch.arange(batch), which] += 1
    xs[-1, :, 3] += 1
    return xs, which, where


@SLOW
def test_a_learned_screen_keeps_the_symbols():
    """A network whose state is a function of its input alone, so that it must attend, with one place for what is older
    than 3 steps, and a screen that prefers blanks. It learns from symbols that are still in the short-term buffer that
    they are of use. (To keep one symbol of the two is enough to answer; from this seed on it keeps both.)
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    cell = Attentive(Elman(4, 8, "tanh"), RelevanceScreen(3, 1, "learned"))
    torch.nn.init.zeros_(cell.cell.connectivity.matrix).requires_grad_(False)
    model = ms.cells.Model(cell, 2)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 2e-2)

    def kept():
        xs, which, where = symbols_among_blanks(200, generator, last=12)  # long before the end
        with torch.no_grad():
            outputs, state = model(xs)
            states = torch.tanh(cell.cell.drive(xs))
        nearest = (states - state.rows[:, 3, :8]).square().sum(-1).argmin(0)
        return float((nearest == where).float().mean()), float((outputs[-1].argmax(-1) == which).float().mean())

    before, _ = kept()
    for _ in range(60):
        xs, which, _ = symbols_among_blanks(32, generator)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(xs)[0][-1], which).backward()
        optimiser.step()
    after, right = kept()
    assert before < 0.1
    assert after > 0.95
    assert right > 0.95


@SLOW
def test_an_attentive_gru_is_bounded_at_scale_half_but_not_at_scale_one():
    """h is between a tanh and the s it read, c among the h: with s = (h + c) / 2 all stay below 1."""
    torch.manual_seed(7)
    xs = 3 * torch.randn(300, 4, 5)
    for score in ("published", "learned", "surprise"):
        cell = relgru(5, 8, 4, 4, score=score)
        assert cell.scale == 0.5
        with torch.no_grad():
            for parameter in cell.cell.parameters():
                parameter.mul_(5)
        outputs, state = ms.scan(cell, xs)
        assert outputs.abs().max() <= 1
        assert state.rows[..., :8].abs().max() <= 1
    whole = Attentive(GRU(5, 8), RelevanceScreen(4, 4))
    with torch.no_grad():
        whole.cell.bias_ih.view(3, 8)[1] = 20.0  # z = 1: what was read is passed on
        whole.cell.weight_hh.view(3, 8, 8)[1] = 0.0
    assert ms.scan(whole, xs, whole.initial_state(4)._replace(s=torch.full((4, 8), 0.1)))[0].abs().max() > 1e3


def test_surprise_needs_the_input_size():
    cell = FunctionCell(lambda x, h: torch.tanh(h + x.sum(-1, keepdim=True)), 3)
    assert cell.input_size is None
    with pytest.raises(ValueError, match="predicts inputs"):
        Attentive(cell, RelevanceScreen(3, 4, "surprise"))
