"""Attention over the past, compared with loops over samples and states."""

import json
from copy import deepcopy
from pathlib import Path
from weakref import ref

import pytest
import torch
from torch import nn
from torch.func import functional_call

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, Stack
from mnemoscope.cells.state import leaves
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen, SparseBacktracking
from mnemoscope.memory.attention.fused import fused_scan
from mnemoscope.memory.attention.history import History
from mnemoscope.memory.attention.normalisation import TopK
from tests.slow import representatives

CELLS = {
    "elman": lambda: Elman(5, 12, "tanh"),
    "orthogonal": lambda: ms.networks.exprnn(5, 12),
    "lstm": lambda: LSTM(5, 12),
    "gru": lambda: GRU(5, 12),
}
PASTS = {
    "full": FullHistory(),
    "screen": RelevanceScreen(3, 4),
    "one and one": RelevanceScreen(1, 1),
    "normalised": RelevanceScreen(3, 4, "normalised"),
}


def reference(cell, xs, nu, rho):
    """Return the macro-states of one sample, computed with lists of states and loops."""
    inner, align = cell.cell.initial_state(1), cell.alignment
    s, buffer, relevant, outputs = cell.cell.output(inner), [], [], []
    for x in xs:
        inner = cell.cell(x[None], s if torch.is_tensor(inner) else inner._replace(h=s))
        h = cell.cell.output(inner)
        buffer.append([h, 0.0])
        if len(buffer) > nu:
            leaving = buffer.pop(0)
            if len(relevant) < rho:
                relevant.append(leaving)
            else:
                least = min(range(rho), key=lambda i: relevant[i][1])
                if leaving[1] > relevant[least][1]:
                    relevant[least] = leaving
        rows = [row for row, _ in buffer + relevant]
        e = torch.stack(
            [(align.direction * torch.tanh(align.query.weight @ s[0] + align.key.weight @ m[0])).sum() for m in rows]
        )
        a = torch.softmax(e, 0)
        for place, entry in enumerate(buffer):
            entry[1] += float(a[place].detach())
        s = h + sum(weight * m for weight, m in zip(a, rows, strict=True))
        outputs.append(s[0])
    return torch.stack(outputs)


def gradients(cell, xs, outputs):
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    return torch.autograd.grad((outputs * weights).sum(), [xs, *cell.parameters()])


def gap(one, other):
    return max(
        float(((a - b).abs().max() / (1 + b.abs().max())).detach()) for a, b in zip(one, other, strict=True) if len(a)
    )


@representatives("loop-elman-dtype0-1e-12", "fused-lstm-dtype1-1e-06")
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("kind", ["elman", "lstm"])
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_screening_matches_a_loop_over_samples_and_states(kind, backend, dtype, within):
    torch.manual_seed(1)
    cell = Attentive(CELLS[kind](), RelevanceScreen(3, 4)).to(dtype)
    with torch.no_grad():
        cell.alignment.direction.mul_(20)  # attention that differs from state to state
    xs = torch.randn(25, 3, 5, dtype=dtype, requires_grad=True)
    # in float64 always: of two computations in float32, on some machines the slow one is further than that from it
    exact, same = deepcopy(cell).double(), xs.detach().double().requires_grad_()
    slow = torch.stack([reference(exact, same[:, sample], 3, 4) for sample in range(3)], dim=1)
    fast, _ = ms.scan(cell, xs, backend=backend)
    assert gap([fast], [slow]) <= within
    assert gap(gradients(cell, xs, fast), gradients(exact, same, slow)) <= within


@representatives("elman-full-options0-False", "elman-one and one-options1-True")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", [{}, {"alignment": "dot", "heads": 3}, {"heads": 2, "combine": "concatenate"}])
@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("kind", CELLS)
def test_scan_equals_the_loop_of_steps(kind, past, options, masked):
    torch.manual_seed(2)
    cell = Attentive(CELLS[kind](), PASTS[past], scale=0.5, **options).double()
    xs = torch.randn(17, 4, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(17, 4) > 0.3 if masked else None
    found = []
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs, mask=mask, backend=backend)
        total = (outputs * torch.arange(12.0)).sum() + state.rows.square().sum() + state.s.sum()
        found.append([outputs, *leaves(state), *torch.autograd.grad(total, [xs, *cell.parameters()])])
    assert [one.shape for one in found[0]] == [one.shape for one in found[1]]
    assert gap(*found) <= 1e-12


@representatives("fused-full", "fused-normalised", "fused-screen", "loop-full", "loop-one and one")
@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_masked_steps_do_not_change_a_sequence(past, backend):
    torch.manual_seed(3)
    cell = Attentive(LSTM(5, 12), PASTS[past]).double()
    xs = torch.randn(20, 2, 5, dtype=torch.float64)
    mask = torch.ones(20, 2, dtype=torch.bool)
    mask[[0, 3, 4, 17], 1] = False
    together, state = ms.scan(cell, xs, mask=mask, backend=backend)
    alone, own = ms.scan(cell, xs[mask[:, 1], 1:], backend=backend)
    assert torch.allclose(together[mask[:, 1], 1:], alone, rtol=0, atol=1e-13)
    there = state.filled[1] > 0
    assert torch.allclose(state.rows[1][there], own.rows[0][own.filled[0] > 0], rtol=0, atol=1e-13)
    assert torch.allclose(state.score[1][there], own.score[0][own.filled[0] > 0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_scan_continues_from_its_last_state(past, backend):
    torch.manual_seed(4)
    cell = Attentive(Elman(5, 12, "tanh"), PASTS[past]).double()
    xs = torch.randn(20, 2, 5, dtype=torch.float64, requires_grad=True)
    whole, last = ms.scan(cell, xs, backend=backend)
    first, state = ms.scan(cell, xs[:8], backend=backend)
    second, end = ms.scan(cell, xs[8:], state, backend=backend)
    parts = torch.cat([first, second])
    assert gap([parts, *leaves(end)], [whole, *leaves(last)]) <= 1e-13
    assert gap(gradients(cell, xs, parts), gradients(cell, xs, whole)) <= 1e-12


def test_a_second_backward_pass_gives_the_same_gradients():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4)).double()
    xs = torch.randn(15, 2, 5, dtype=torch.float64, requires_grad=True)
    loss = ms.scan(cell, xs)[0].square().sum()
    once, twice = (torch.autograd.grad(loss, xs, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, twice)


def test_a_parameter_changed_before_the_backward_pass_raises():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4))
    loss = ms.scan(cell, torch.randn(15, 2, 5))[0].square().sum()
    with torch.no_grad():
        cell.alignment.direction.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_derivatives_match_the_loop_or_raise():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4)).double()
    xs = torch.randn(6, 1, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backend='loop'"):
        torch.autograd.grad(ms.scan(cell, xs)[0].sum(), xs, create_graph=True)
    assert torch.autograd.grad(ms.scan(cell, xs, backend="loop")[0].sum(), xs, create_graph=True)[0].requires_grad


@pytest.mark.parametrize("name", ["memgru", "memrnn", "rellstm", "relrnn", "sab"])
@pytest.mark.parametrize("batched", [True, False])
def test_batched_gradients_match_single_ones_or_raise(name, batched):
    """A fused scan loops over the vectors; a shared history raises and names the alternative."""
    cell = Attentive(GRU(3, 6), FullHistory()) if name == "memgru" else ms.registry.cells.load(name)(3, 6)
    cell, xs = cell.double(), torch.randn(6, 2, 3).double().requires_grad_()

    def pulled(outputs, g):
        return torch.autograd.grad(outputs, xs, g, retain_graph=True)[0]

    def together(outputs, vectors):
        if batched:
            return torch.autograd.grad(outputs, xs, vectors, is_grads_batched=True, retain_graph=True)[0]
        return torch.func.vmap(lambda g: pulled(outputs, g))(vectors)

    outputs = ms.scan(cell, xs)[0]
    vectors = torch.randn(3, *outputs.shape).double()
    expected = torch.stack([pulled(outputs, g) for g in vectors])
    if name == "memgru":
        with pytest.raises(RuntimeError, match=r"one gradient at a time.*backend='loop'"):
            together(outputs, vectors)
        outputs = ms.scan(cell, xs, backend="loop")[0]
    torch.testing.assert_close(together(outputs, vectors), expected, rtol=0, atol=1e-12)  # float64, sums of few terms


def test_full_attention_is_a_softmax_over_all_states():
    torch.manual_seed(5)
    cell = Attentive(Elman(5, 12, "tanh"), FullHistory()).double()
    xs = torch.randn(9, 1, 5, dtype=torch.float64)
    outputs, state = ms.scan(cell, xs)
    before = ms.scan(cell, xs[:8])[0][-1]
    h = state.rows[0, :, :12]
    e = torch.tanh(cell.alignment.query(before) + cell.alignment.key(h)) @ cell.alignment.direction
    assert torch.allclose(outputs[-1, 0], h[-1] + e.softmax(0) @ h, rtol=0, atol=1e-14)


def test_normalised_scores_count_competitors():
    """With equal attention every state has the same normalised score, and the published one favours the first."""
    kept = {}
    for score in ("published", "normalised"):
        cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4, score)).double()
        nn.init.zeros_(cell.alignment.direction)
        state = ms.scan(cell, torch.randn(30, 1, 5, dtype=torch.float64))[1]
        kept[score] = state.score[0, 3:]
    assert kept["published"].tolist() == pytest.approx(
        [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3 + 1 / 4, 1 / 3 + 1 / 4 + 1 / 5, 1 / 4 + 1 / 5 + 1 / 6]
    )
    assert kept["normalised"].tolist() == pytest.approx([3.0] * 4)


def test_intermediates_return_the_attention_weights():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4), heads=2)
    cache = ms.run_with_cache(cell, torch.randn(9, 2, 5))[1]
    assert cache["weights"].shape == (9, 2, 7, 2)
    assert torch.allclose(cache["weights"].sum(2), torch.ones(9, 2, 2))


@pytest.mark.parametrize("sizes", [(0, 4), (3, 0), (-1, 2), (True, 2)])
def test_a_screen_needs_at_least_one_slot_in_both_sets(sizes):
    with pytest.raises(ValueError, match="at least one state in both sets"):
        RelevanceScreen(*sizes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attentive(Stack([GRU(3, 4)]), FullHistory()), "whose output is a real tensor"),
        (lambda: Attentive(ms.networks.urnn(3, 4), FullHistory()), "whose output is a real tensor"),
        (lambda: Attentive(GRU(3, 4), FullHistory(), heads=3), "cannot be shared by 3 heads"),
        (lambda: Attentive(GRU(3, 4), FullHistory(), alignment="cosine"), "alignment must be one of additive, dot"),
        (lambda: Attentive(GRU(3, 4), FullHistory(), combine="product"), "combine must be"),
        (lambda: RelevanceScreen(3, 4, "random"), "score must be"),
    ],
)
def test_bad_arguments_raise_with_an_explanation(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_full_history_has_no_fixed_state_size():
    with pytest.raises(ValueError, match="grows with every step"):
        ms.Dynamics(Attentive(Elman(5, 4, "tanh"), FullHistory()))


def test_a_screened_network_has_a_fixed_point():
    """At a constant input states repeat, scores settle, and a state that is not more relevant replaces none."""
    cell = Attentive(Elman(1, 4, "tanh"), RelevanceScreen(2, 2)).double()
    with torch.no_grad():
        cell.cell.connectivity.matrix.mul_(0.2)
    dynamics = ms.Dynamics(cell, torch.ones(1))
    state = ms.scan(cell, torch.ones(300, 1, 1, dtype=torch.float64))[1]
    assert dynamics.residual(dynamics.flatten(state)).norm() < 1e-12


@pytest.mark.parametrize("past", [FullHistory(), RelevanceScreen(3, 4), SparseBacktracking(3, 2)])
@pytest.mark.parametrize("backward", [True, False])
def test_a_scan_frees_its_history(past, backward, monkeypatch):
    """Memory is freed immediately, without the garbage collector, which cannot follow cycles through a graph."""
    stored = []
    begin = History.__init__
    monkeypatch.setattr(History, "__init__", lambda self, *args: (begin(self, *args), stored.append(ref(self)))[0])
    outputs, state = ms.scan(Attentive(GRU(3, 6), past), torch.randn(12, 2, 3))
    if backward:
        outputs.sum().backward()
    assert len(stored) == 1
    del outputs, state
    assert stored[0]() is None


@representatives("options0-past1-elman", "options1-past0-lstm")
@pytest.mark.parametrize("kind", ["elman", "lstm"])
@pytest.mark.parametrize("past", [RelevanceScreen(3, 4), RelevanceScreen(1, 1, "normalised"), RelevanceScreen(5, 1)])
@pytest.mark.parametrize("options", [{}, {"alignment": "dot", "scale": 0.5}])
def test_fused_screen_continues_from_any_state_with_its_gradient(kind, past, options):
    cell = Attentive(CELLS[kind](), past, **options).double()
    xs = torch.randn(16, 3, 5, dtype=torch.float64, requires_grad=True)
    found = []
    for backend in ("loop", "fused"):
        _, state = ms.scan(cell, xs[:2], backend="loop")
        empty = state._replace(filled=state.filled.clone(), score=state.score.clone())
        empty.filled[0] = empty.score[0] = 0  # one member of the batch begins with nothing
        fast = cell.fast_path(xs[2:], empty, None)
        assert fast.name == f"screened scan ({'tanh' if kind == 'elman' else 'lstm'}, cpu)"
        outputs, last = ms.scan(cell, xs[2:], empty, backend=backend)
        learned = (*leaves(last.inner), last.s, last.rows)  # no gradient passes through scores
        total = (outputs * torch.arange(12.0)).sum() + sum(part.square().sum() for part in learned)
        found.append([outputs, *leaves(last), *torch.autograd.grad(total, [xs, *cell.parameters()], allow_unused=True)])
    assert gap(*([one for one in each if one is not None] for each in found)) <= 1e-11


@pytest.mark.parametrize(
    ("kind", "past", "options"),
    [
        ("elman", FullHistory(), {}),
        ("lstm", FullHistory(), {"alignment": "dot", "scale": 0.5}),
        ("lstm", SparseBacktracking(3, 2, 4), {"scale": 0.5}),
        ("elman", SparseBacktracking(1, 3, None), {"alignment": "dot"}),
    ],
)
def test_fused_history_continues_from_any_state_with_its_gradient(kind, past, options):
    """Both passes take more than one chunk of the products over earlier rows."""
    cell = Attentive(CELLS[kind](), past, **options).double()
    xs = torch.randn(42, 3, 5, dtype=torch.float64, requires_grad=True)
    scan = "full" if isinstance(past, FullHistory) else "sparse"
    found = []
    for backend in ("loop", "fused"):
        _, state = ms.scan(cell, xs[:5], backend="loop")
        fast = cell.fast_path(xs[5:], state, None)
        assert fast.name == f"scan with {scan} attention ({'tanh' if kind == 'elman' else 'lstm'}, cpu)"
        outputs, last = ms.scan(cell, xs[5:], state, backend=backend)
        learned = (*leaves(last.inner), last.s, last.rows)
        weights = torch.arange(1.0, 1 + outputs.shape[-1])
        total = (outputs * weights).sum() + sum(part.square().sum() for part in learned)
        found.append([outputs, *leaves(last), *torch.autograd.grad(total, [xs, *cell.parameters()])])
    assert gap(*found) <= 1e-11


def test_the_costs_of_the_page_are_those_of_the_benchmark():
    """`python benchmarks/attention.py --device cuda --keep` writes the results; the page copies those of T = 1,000."""
    folder = Path(__file__).parents[2]
    rows = json.loads((folder / "benchmarks" / "results" / "attention_cuda.json").read_text())["rows"]
    costs = {row["model"]: row for row in rows if row["length"] == 1000}
    table = (folder / "docs" / "attention.md").read_text().split("<!-- costs -->")[1].split("<!-- end -->")[0]
    printed = [line.split(" | ") for line in table.strip().splitlines()[2:]]
    for model, (name, milliseconds, megabytes) in zip(
        ("relrnn", "rellstm", "memrnn", "memlstm", "sab", "eager MemRNN"), printed, strict=True
    ):
        assert model.split()[-1].lower() in name.lower()
        assert milliseconds == f"{costs[model]['seconds']:.3f}"
        assert megabytes.rstrip(" |") == f"{costs[model]['megabytes']:,.0f}"


def test_the_last_state_alone_has_a_gradient():
    """None of the outputs has a gradient then, nor the rows."""
    cell = Attentive(LSTM(5, 12), FullHistory()).double()
    xs = torch.randn(5, 2, 5, dtype=torch.float64, requires_grad=True)
    ends = (ms.scan(cell, xs, backend=backend)[1].inner.c.sum() for backend in ("loop", "fused"))
    assert gap(*([torch.autograd.grad(end, xs)[0]] for end in ends)) <= 1e-12


@pytest.mark.parametrize("alignment", ["additive", "dot"])
def test_fused_full_attention_ignores_empty_slots(alignment):
    cell = Attentive(LSTM(5, 12), FullHistory(), alignment=alignment).double()
    xs = torch.randn(6, 3, 5, dtype=torch.float64, requires_grad=True)
    found = []
    for backend in ("loop", "fused"):
        state = ms.scan(cell, xs[:3], backend="loop")[1]
        state = state._replace(filled=torch.tensor([[0, 0, 0], [1, 0, 1], [1, 1, 1]], dtype=torch.float64))
        assert cell.fast_path(xs[3:], state, None).name == "scan with full attention (lstm, cpu)"
        outputs, last = ms.scan(cell, xs[3:], state, backend=backend)
        total = (outputs * torch.arange(12.0)).sum() + sum(part.square().sum() for part in leaves(last.inner))
        found.append([outputs, *leaves(last), *torch.autograd.grad(total, [xs, *cell.parameters()])])
    assert gap(*found) <= 1e-11


@pytest.mark.parametrize(
    ("past", "change", "reason"),
    [
        (FullHistory(), {"filled": 0.5}, "filled in part"),
        (SparseBacktracking(1), {"filled": 0}, "empty"),
        (SparseBacktracking(2), {"phase": 1}, "at different steps"),
        (SparseBacktracking(2, 3, 4, "released"), {}, "only attention with"),
    ],
)
def test_states_and_scores_that_are_not_fused_take_the_shared_history(past, change, reason):
    cell, xs = Attentive(LSTM(5, 12), past).double(), torch.randn(4, 2, 5, dtype=torch.float64)
    state = ms.scan(cell, xs)[1]
    for name, value in change.items():
        getattr(state, name)[0] = value
    assert reason in fused_scan(cell, xs, state, None).reason
    assert cell.fast_path(xs, state, None).name == "shared history"


@pytest.mark.parametrize("name", ["tanh", "relu", "modrelu", "logistic", "linear"])
def test_every_known_nonlinearity_is_fused(name):
    cell = Attentive(Elman(5, 12, name), RelevanceScreen(3, 4), scale=0.5).double()
    xs = torch.randn(25, 3, 5, dtype=torch.float64, requires_grad=True)
    assert cell.fast_path(xs, cell.initial_state(3), None).name == f"screened scan ({name}, cpu)"
    found = [gradients(cell, xs, ms.scan(cell, xs, backend=backend)[0]) for backend in ("loop", "fused")]
    assert gap(*found) <= 1e-11


def test_a_replaced_map_disables_the_fused_scan():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4)).double()
    cell.alignment.key = nn.Linear(12, 12).double()
    xs = torch.randn(25, 3, 5, dtype=torch.float64)
    assert cell.fast_path(xs, cell.initial_state(3), None).name == "shared history"
    with torch.no_grad():
        assert gap([ms.scan(cell, xs)[0]], [ms.scan(cell, xs, backend="loop")[0]]) <= 1e-12


@pytest.mark.parametrize("name", ["memrnn", "sab", "relgru", "relrnn"])
def test_gradients_with_parameters_from_outside(name):
    """torch.func.functional_call restores the parameters of a module before the backward pass."""
    cell = ms.registry.cells.load(name)(3, 8).double()
    xs = torch.randn(25, 2, 3, dtype=torch.float64)
    found = []
    for backend in ("loop", "fused"):
        other = {key: (2 * value).detach().requires_grad_() for key, value in cell.named_parameters()}
        outputs = functional_call(_Scanned(cell, backend), {f"cell.{key}": value for key, value in other.items()}, xs)
        found.append(torch.autograd.grad(outputs.square().sum(), list(other.values())))
    assert gap(*found) <= 1e-11


class _Scanned(nn.Module):
    def __init__(self, cell, backend):
        super().__init__()
        self.cell, self.backend = cell, backend

    def forward(self, xs):
        return ms.scan(self.cell, xs, backend=self.backend)[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: setattr(cell, "macro", lambda h, c: h - c),
        lambda cell: setattr(cell.alignment, "scores", lambda compared, *shared: compared.sum(-1, keepdim=True)),
        lambda cell: setattr(cell.alignment, "share", TopK(1)),
        lambda cell: setattr(cell.cell, "bias_hh", None),
    ],
)
def test_methods_replaced_on_the_instance_are_used(change):
    cell = Attentive(LSTM(5, 12), RelevanceScreen(3, 4)).double()
    change(cell)
    xs = torch.randn(25, 3, 5, dtype=torch.float64)
    with torch.no_grad():
        assert gap([ms.scan(cell, xs)[0]], [ms.scan(cell, xs, backend="loop")[0]]) <= 1e-12


@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_a_state_of_another_network_raises(backend):
    cell, other = (Attentive(LSTM(5, 12), RelevanceScreen(3, relevant)) for relevant in (4, 5))
    with pytest.raises(ValueError, match="has 7 slots, but the given one has 8"):
        ms.scan(cell, torch.zeros(2, 3, 5), other.initial_state(3), backend=backend)
