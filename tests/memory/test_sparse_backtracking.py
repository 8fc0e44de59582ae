"""Sparse attentive backtracking, compared with loops over samples and stored states."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import LSTM, Elman
from mnemoscope.cells.state import leaves
from mnemoscope.memory.attention import Attentive, SparseBacktracking
from mnemoscope.memory.attention.normalisation import EPSILON, TopK
from mnemoscope.networks.attentive import sab
from tests.slow import representatives

FLOAT64_ROUNDING = 1e-12
PASTS = {
    "additive": SparseBacktracking(3, 2, 4),
    "every step": SparseBacktracking(1, 3, 1),
    "whole gradient": SparseBacktracking(2, 1, None),
    "released": SparseBacktracking(3, 3, 4, "released"),
}
CELLS = {"lstm": lambda: LSTM(5, 12), "elman": lambda: Elman(5, 12, "tanh")}


def made(past, cell="lstm", **options):
    """Return a cell in double precision whose scores differ between states."""
    attentive = Attentive(CELLS[cell](), PASTS[past], **options).double()
    with torch.no_grad():
        for name, parameter in attentive.alignment.named_parameters():
            if name == "direction" or past == "released":
                parameter.copy_(2 * torch.randn_like(parameter))
    return attentive


def reference(cell, xs):
    """Return the outputs of one sample and the numbers of nonzero weights, computed with lists."""
    past, align = cell.past, cell.alignment
    released = past.score == "released"
    inner = cell.cell.initial_state(1)
    s, outputs, kept = cell.cell.output(inner), [], []
    stored = [s] if released else []
    for t, x in enumerate(xs):
        if past.truncate and t % past.truncate == 0:
            s = s.detach()
            inner = s if torch.is_tensor(inner) else type(inner)(*(part.detach() for part in inner))
        inner = cell.cell(x[None], s if torch.is_tensor(inner) else inner._replace(h=s))
        h = cell.cell.output(inner)
        c, weights = torch.zeros_like(h), []
        if stored:
            e = [score(align, h[0], m[0], released) for m in stored]
            weights = shared(e, past.top_k, released)
            c = sum(a * m for a, m in zip(weights, stored, strict=True))
        s = h + c
        if (t + 1) % past.attend_every == 0:
            stored.append(s)
        outputs.append(torch.cat([s[0], c[0]]))
        kept.append((len(weights), sum(float(a.detach()) != 0 for a in weights)))
    return torch.stack(outputs), kept


def score(align, h, m, released):
    if released:
        w = torch.cat([align.query[1].weight, align.key[1].weight], dim=1)[0]
        return torch.tanh(torch.cat([h, m])) @ w
    return (align.direction * torch.tanh(align.query.weight @ h + align.key.weight @ m)).sum()


def shared(e, k, released):
    if len(e) <= k:
        return e if released else list(torch.stack(e).softmax(0))
    ordered = sorted(e, key=lambda one: float(one.detach()), reverse=True)
    threshold = ordered[k - 1] + EPSILON if released else ordered[k]
    above = [torch.relu(one - threshold) for one in e]
    return [one / (sum(above) + EPSILON) for one in above]


def gradients(cell, xs, outputs):
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    return torch.autograd.grad((outputs * weights).sum(), [xs, *cell.parameters()])


def gap(one, other):
    pairs = [pair for pair in zip(one, other, strict=True) if pair[0].numel()]
    return max(float(((a - b).abs().max() / (1 + b.abs().max())).detach()) for a, b in pairs)


@representatives("additive-lstm-loop", "released-elman-fused")
@pytest.mark.parametrize("backend", ["loop", "fused"])
@pytest.mark.parametrize("cell", ["lstm", "elman"])
@pytest.mark.parametrize("past", PASTS)
def test_backtracking_matches_a_loop_over_samples_and_states(past, cell, backend):
    torch.manual_seed(1)
    cell = made(past, cell)
    xs = torch.randn(23, 3, 5, dtype=torch.float64, requires_grad=True)
    slow = torch.stack([reference(cell, xs[:, sample])[0] for sample in range(3)], dim=1)
    fast, _ = ms.scan(cell, xs, backend=backend)
    assert fast.shape == (23, 3, 24)
    assert gap([fast], [slow]) <= FLOAT64_ROUNDING
    assert gap(gradients(cell, xs, fast), gradients(cell, xs, slow)) <= FLOAT64_ROUNDING


@representatives("additive-options0-lstm-False", "released-options3-lstm-False")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("past", "options"),
    [
        *((past, {}) for past in PASTS),
        ("additive", {"alignment": "dot", "heads": 3}),
        ("every step", {"heads": 2, "combine": "concatenate", "scale": 0.5}),
    ],
)
def test_scan_equals_the_loop_of_steps(past, options, cell, masked):
    torch.manual_seed(2)
    cell = made(past, cell, **{"scale": 0.5, **options})
    xs = torch.randn(17, 4, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(17, 4) > 0.3 if masked else None
    found = []
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs, mask=mask, backend=backend)
        total = (outputs * torch.arange(24.0)).sum() + state.rows.square().sum() + state.s.sum() - state.c.sum()
        found.append([outputs, *leaves(state), *torch.autograd.grad(total, [xs, *cell.parameters()])])
    assert [one.shape for one in found[0]] == [one.shape for one in found[1]]
    assert gap(*found) <= FLOAT64_ROUNDING


@representatives("loop-additive", "fused-released")
@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_masked_steps_do_not_change_a_sequence(past, backend):
    torch.manual_seed(3)
    cell = made(past)
    xs = torch.randn(20, 2, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(20, 2, dtype=torch.bool)
    mask[[0, 3, 4, 17], 1] = False
    together, state = ms.scan(cell, xs, mask=mask, backend=backend)
    alone, own = ms.scan(cell, xs[mask[:, 1], 1:], backend=backend)
    assert gap([together[mask[:, 1], 1:]], [alone]) <= FLOAT64_ROUNDING
    there = state.filled[1] > 0
    assert int(there.sum()) == len(own.rows[0])
    assert gap([state.rows[1][there], state.phase[1]], [own.rows[0], own.phase[0]]) <= FLOAT64_ROUNDING
    ways = (together[mask[:, 1], 1], alone[:, 0])
    first, second = (torch.autograd.grad((way * torch.arange(24.0)).sum(), xs)[0][mask[:, 1], 1] for way in ways)
    assert gap([first], [second]) <= FLOAT64_ROUNDING


@representatives("1-loop-additive", "12-fused-released")
@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("backend", ["loop", "fused"])
@pytest.mark.parametrize("cut", [1, 12])
def test_scan_continues_from_its_last_state(past, backend, cut):
    torch.manual_seed(4)
    cell = made(past)
    xs = torch.randn(20, 2, 5, dtype=torch.float64, requires_grad=True)
    whole, last = ms.scan(cell, xs, backend=backend)
    first, state = ms.scan(cell, xs[:cut], backend=backend)
    second, end = ms.scan(cell, xs[cut:], state, backend=backend)
    parts = torch.cat([first, second])
    assert gap([parts, *leaves(end)], [whole, *leaves(last)]) <= FLOAT64_ROUNDING
    assert gap(gradients(cell, xs, parts), gradients(cell, xs, whole)) <= FLOAT64_ROUNDING


@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_truncation_ends_the_gradient_of_the_state_but_not_of_attention(backend):
    """The state ends after steps 6 and 12: what came before is seen at step 18 only if a state was stored after it and
    before the end of its window.
    """
    torch.manual_seed(5)
    xs = torch.randn(18, 1, 5, dtype=torch.float64, requires_grad=True)
    cell = LSTM(5, 12)

    def reach(cell):
        outputs = ms.scan(cell, xs, backend=backend)[0]
        return torch.autograd.grad(outputs[-1].sum(), xs)[0].abs().sum((1, 2))

    def steps(attend_every):
        past = SparseBacktracking(attend_every, 5, 6)
        return (reach(Attentive(cell, past).double()) > 0).nonzero().flatten().add(1).tolist()

    assert steps(100) == [13, 14, 15, 16, 17, 18]  # nothing stored: the recurrent path alone
    assert steps(8) == [7, 8, 13, 14, 15, 16, 17, 18]  # after step 8, and after step 16
    assert steps(4) == [1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]  # after steps 4, 8, 12, 16


def test_at_most_k_weights_are_positive_and_one_less_in_the_released_code():
    torch.manual_seed(6)
    xs = torch.randn(40, 1, 5, dtype=torch.float64)
    for past, least, most in [("additive", 2, 2), ("released", 2, 2)]:
        cell = made(past)
        kept = reference(cell, xs[:, 0])[1]
        weights = ms.run_with_cache(cell, xs)[1]["weights"]
        k = cell.past.top_k
        for t, (stored, nonzero) in enumerate(kept):
            assert int((weights[t] != 0).sum()) == nonzero
            if stored > k:
                assert least <= nonzero <= most
        assert max(stored for stored, _ in kept) > k


def test_the_released_score_does_not_depend_on_the_query_beyond_the_threshold():
    torch.manual_seed(7)
    align = made("released").alignment
    rows = torch.stack([align.row(torch.randn(1, 12, dtype=torch.float64)) for _ in range(6)])
    query, other = align.query(torch.randn(2, 1, 12, dtype=torch.float64))
    assert torch.allclose(align.attend(query, rows, None)[1], align.attend(other, rows, None)[1], rtol=0, atol=1e-14)
    additive = made("additive").alignment
    rows = torch.stack([additive.row(torch.randn(1, 12, dtype=torch.float64)) for _ in range(6)])
    query, other = additive.query(torch.randn(2, 1, 12, dtype=torch.float64))
    assert not torch.allclose(additive.attend(query, rows, None)[1], additive.attend(other, rows, None)[1], atol=1e-2)


@representatives("1-False", "3-True", "4-False")
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("slots", [1, 3, 4, 9])
def test_top_k_gradient_matches_finite_differences(slots, released):
    torch.manual_seed(8)
    share = TopK(3, released)
    scores = torch.randn(slots, 4, 2, dtype=torch.float64, requires_grad=True)
    valid = torch.rand(slots, 4) > 0.4
    grad = torch.randn(slots, 4, 2, dtype=torch.float64)
    for where in (None, valid):
        pulled = share.backward(scores.detach(), share(scores, where).detach(), where, grad)
        assert torch.allclose(pulled, torch.autograd.grad(share(scores, where), scores, grad)[0], rtol=0, atol=1e-12)
        assert torch.autograd.gradcheck(lambda e, where=where: share(e, where), scores)


def test_equal_scores_give_zero_weights():
    scores = torch.ones(6, 1, 1, requires_grad=True)
    weights = TopK(2)(scores, None)
    assert weights.tolist() == torch.zeros(6, 1, 1).tolist()
    assert torch.isfinite(torch.autograd.grad(weights.sum(), scores)[0]).all()


def test_memory_grows_with_the_number_of_stored_states():
    cell = sab(5, 12)
    assert cell.grows
    outputs, state = ms.scan(cell, torch.randn(45, 2, 5))
    assert outputs.shape == (45, 2, 24)
    assert state.rows.shape == (2, 4, 24)
    assert ms.cells.Model(cell, 3)(torch.randn(12, 2, 5))[0].shape == (12, 2, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparseBacktracking(0), "attend_every must be a number of steps from 1 on, but is 0"),
        (lambda: SparseBacktracking(True), "attend_every must be"),
        (lambda: SparseBacktracking(10, 0), "top_k must be a number of stored states from 1 on, but is 0"),
        (lambda: SparseBacktracking(10, 1, score="released"), "top_k must be a number of stored states from 2 on"),
        (lambda: SparseBacktracking(10, 2, 0), "truncate must be a number of steps from 1 on, but is 0"),
        (lambda: SparseBacktracking(score="dense"), 'score must be "additive" or "released"'),
        (lambda: sab(3, 4, score="released", heads=2), "one head"),
    ],
)
def test_bad_arguments_raise_with_an_explanation(make, message):
    with pytest.raises(ValueError, match=message):
        make()
