"""The attention lens and its theory, against slow references."""

from itertools import combinations, pairwise
from math import comb, log

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Cell, Elman
from mnemoscope.connectivity import Dense
from mnemoscope.inspection.attention import attention_section
from mnemoscope.lenses.attention import (
    Attention,
    AttentionDependencies,
    chi,
    chi_of,
    linear_norms,
    omega,
    polynomial,
    scaled,
    sparse_bound,
    sparse_uniform,
    theta,
    uniform_bound,
    uniform_exponent,
)
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen
from tests.slow import representatives

PASTS = {
    "full": FullHistory(),
    "screen": RelevanceScreen(3, 4),
    "one and one": RelevanceScreen(1, 1),
    "normalised": RelevanceScreen(3, 4, "normalised"),
}


def attentive(past, kind=Elman, **options):
    torch.manual_seed(1)
    cell = Attentive(kind(3, 6), past, **options).double()
    with torch.no_grad():
        cell.alignment.query.weight.mul_(5)  # attention that differs from state to state
    return cell


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def slow_record(cell, xs):
    """Return what is in memory at each step of one sequence, identified by the states, which are all distinct."""
    length = len(xs)
    weights = torch.zeros(length, length, dtype=torch.float64)
    kept = torch.zeros(length, length, dtype=torch.bool)
    scores = torch.zeros(length, dtype=torch.float64)
    state, states = cell.initial_state(1), []
    for t, x in enumerate(xs):
        at = cell.intermediates(x[None], state)["weights"][0].mean(-1)
        state = cell(x[None], state)
        states.append(cell.cell.output(state.inner)[0])
        for slot in range(state.rows.shape[1]):
            if state.filled[0, slot] > 0:
                (j,) = [j for j, h in enumerate(states) if torch.equal(h, state.rows[0, slot, :6])]
                weights[t, j], kept[t, j], scores[j] = at[slot], True, state.score[0, slot]
    return weights, kept, scores


@representatives("full-Elman-options0", "normalised-LSTM-options1")
@pytest.mark.parametrize("options", [{}, {"heads": 2, "alignment": "dot"}])
@pytest.mark.parametrize("kind", [Elman, LSTM])
@pytest.mark.parametrize("past", PASTS)
def test_attention_matches_a_step_by_step_reference(past, kind, options):
    cell = attentive(PASTS[past], kind, **options)
    xs = randn(15, 3, 3)
    with torch.no_grad():
        found = ms.record_attention(cell, xs)
        for sample in range(3):
            weights, kept, scores = slow_record(cell, xs[:, sample])
            assert torch.allclose(found.weights[:, :, sample], weights, rtol=0, atol=1e-13)
            assert torch.equal(found.kept[:, :, sample], kept)
            if found.scores is not None:
                assert torch.allclose(found.scores[:, sample], scores, rtol=0, atol=1e-13)
    assert (found.scores is None) == (past == "full")


@representatives("full", "normalised", "one and one")
@pytest.mark.parametrize("past", PASTS)
def test_a_masked_sequence_gives_the_same_as_the_shorter_sequence(past):
    cell = attentive(PASTS[past], LSTM)
    xs, mask = randn(15, 2, 3), torch.ones(15, 2, dtype=torch.bool)
    mask[[0, 4, 5, 14], 1] = False
    on = mask[:, 1]
    together, alone = ms.record_attention(cell, xs, mask), ms.record_attention(cell, xs[on, 1:])
    for name in ("weights", "kept", "chosen"):
        whole = getattr(together, name)[:, :, 1]
        assert torch.allclose(whole[on][:, on].double(), getattr(alone, name)[:, :, 0].double(), rtol=0, atol=1e-13)
        assert not whole[~on].any()
        assert not whole[:, ~on].any()
    assert torch.allclose(together.age[on, 1], alone.age[:, 0], rtol=0, atol=1e-13)
    if together.scores is not None:
        assert torch.allclose(together.scores[on, 1], alone.scores[:, 0], rtol=0, atol=1e-13)
    assert torch.equal(together.dependencies().depth[on, 1], alone.dependencies().depth[:, 0])
    assert torch.equal(together.dependencies().skips[on, 1], alone.dependencies().skips[:, 0])
    assert (together.dependencies().kappa[~on, 1] == -1).all()


def test_chosen_states_are_those_of_the_relevant_set():
    found = ms.record_attention(attentive(RelevanceScreen(3, 4)), randn(20, 2, 3))
    assert (found.chosen.sum(1) == torch.arange(20).sub(2).clamp(0, 4).unsqueeze(1)).all()
    assert not found.chosen[-1, -3:].any()


class Pushed(Cell):
    """A cell whose output is shifted at one step."""

    def __init__(self, cell, at, push):
        super().__init__()
        self.cell, self.at, self.push, self.now = cell, at, push, 0

    def initial_state(self, batch):
        return self.cell.initial_state(batch)

    def output(self, state):
        return self.cell.output(state)

    def forward(self, x, state):
        state = self.cell(x, state)
        if self.now == self.at:
            h = self.output(state) + self.push
            state = h if torch.is_tensor(state) else state._replace(h=h)
        self.now += 1
        return state


@representatives("full-Elman", "normalised-GRU")
@pytest.mark.parametrize("kind", [Elman, LSTM, GRU])
@pytest.mark.parametrize("past", PASTS)
def test_the_norm_is_that_of_the_gradient_with_respect_to_one_h(past, kind):
    cell = attentive(PASTS[past], kind, scale=0.5)
    xs, toward = randn(9, 2, 3), randn(9, 2, 6)

    def loss(outputs):
        return (outputs[5:] * toward[5:]).sum() + outputs[-1].square().sum()

    found = gradient_norms(cell, xs, loss).norms[0]
    inner = cell.cell
    for t in range(9):
        push = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True)
        cell.cell = Pushed(inner, t, push)
        (slow,) = torch.autograd.grad(loss(ms.scan(cell, xs, backend="loop")[0]), push)
        assert torch.allclose(found[t], slow.norm(dim=1), rtol=1e-12, atol=1e-14)
    cell.cell = inner


def test_finite_differences_agree_with_the_norms():
    """A step along the gradient raises the loss by the norm times the length of the step."""
    cell = attentive(RelevanceScreen(2, 2))
    xs = randn(8, 1, 3)
    perturbations = torch.zeros(8, 1, 6, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(cell.scan_outputs(xs, perturbations=perturbations)[-1].square().sum(), perturbations)
    norms = gradient_norms(cell, xs, lambda outputs: outputs[-1].square().sum()).norms[0]
    for t in range(8):
        way = torch.zeros_like(slope)
        way[t] = 1e-5 * slope[t] / slope[t].norm()
        up, down = (cell.scan_outputs(xs, perturbations=sign * way)[-1].square().sum() for sign in (1, -1))
        assert float((up - down).detach() / 2e-5) == pytest.approx(float(norms[t]), rel=1e-7)


@pytest.mark.parametrize("past", PASTS)
def test_norms_from_a_later_state_are_the_tail_of_the_whole(past):
    cell, xs = attentive(PASTS[past], LSTM), randn(12, 2, 3)
    state = ms.scan(cell, xs[:7])[1]
    whole = gradient_norms(cell, xs, lambda outputs: outputs[-1].sum()).norms[0]
    late = gradient_norms(cell, xs[7:], lambda outputs: outputs[-1].sum(), state=state).norms[0]
    assert torch.allclose(whole[7:], late, rtol=1e-12)


@representatives("screen")
@pytest.mark.parametrize("past", ["full", "screen"])
def test_the_memory_for_norms_grows_linearly_with_time(past):
    def kept(length):
        sizes = []

        def note(tensor):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            gradient_norms(attentive(PASTS[past]), randn(length, 1, 3), lambda outputs: outputs[-1].sum())
        return sum(sizes)

    assert kept(160) < 2.1 * kept(80)


def test_gradients_are_concatenated_summarised_and_saved(tmp_path):
    shrinks = Elman(2, 3, "linear", Dense.from_matrix(torch.eye(3).double() / 2)).double()
    stays = Elman(2, 3, "linear", Dense.from_matrix(torch.eye(3).double())).double()

    def loss(outputs):
        return outputs[-1].sum()

    before, after = (gradient_norms(cell, randn(7, 2, 2), loss, name=name)
                     for cell, name in ((shrinks, "before training"), (stays, "after training")))  # fmt: skip
    both = before.concatenate(after)
    assert both.decay.tolist() == pytest.approx([0.5, 1.0])
    assert both.summary().startswith("Before training: the gradient shrinks by a factor of 0.5 per step back")
    both.save(tmp_path / "norms.safetensors")
    again = GradientNorms.load(tmp_path / "norms.safetensors")
    assert torch.equal(again.norms, both.norms)
    assert again.names == ("before training", "after training")
    assert len(both.figure().axes) == 1
    with pytest.raises(ValueError, match="the same steps and sequences"):
        before.concatenate(gradient_norms(stays, randn(6, 2, 2), loss))


def test_the_summary_names_the_smallest_gradient():
    norms = torch.tensor([3.0, 1.0, 0.5, 1.0, 2.0]).double().view(1, 5, 1)
    assert GradientNorms(norms).summary().endswith("it is 1.5 of its value at the last, and smallest at step 2.")


def test_the_summary_of_a_vanished_gradient():
    cell = Elman(2, 3, "linear", Dense.from_matrix(torch.zeros(3, 3)))
    lost = gradient_norms(cell, torch.randn(4, 1, 2), lambda outputs: outputs[-1].sum())
    assert lost.curve[0, :3].isneginf().all()
    assert lost.decay.isnan().all()
    assert "has no measurable decay" in lost.summary()
    lost.figure()


def ways(t, k, s):
    """Yield the products of chi for each tuple i_1 < ... < i_s < k, as printed (B.1.117)."""
    for chosen in combinations(range(k), s):
        product = 1 / (t + k) + (k - chosen[-1] == 1) if s else 1 / (t + k) + (k == 0)
        for low, high in pairwise(chosen):
            product *= 1 / (t + high) + (high - low == 1)
        yield product * (1 / (t + chosen[0]) + (chosen[0] == 0)) if s else product


def thetas(t, start, k, s):
    for chosen in combinations(range(start, k), s):
        product = 1 / (t + chosen[0]) + (chosen[0] == 0) if s else 1.0
        for low, high in pairwise(chosen):
            product *= 1 / (t + high) + (high - low == 1)
        yield product


def omegas(t, start, k, s):
    for chosen in combinations(range(start, k), s):
        yield torch.tensor([1 / (t + i) for i in chosen], dtype=torch.float64).prod().item()


@representatives("2-1")
@pytest.mark.parametrize("t", [1, 2, 5])
@pytest.mark.parametrize("k", range(9))
def test_recursions_equal_the_sums_over_subsets(t, k):
    assert chi(t, k).tolist() == pytest.approx([sum(ways(t, k, s)) for s in range(k + 1)], rel=1e-13)
    assert chi(t, k, 2).tolist() == pytest.approx([sum(ways(t, k, s)) for s in range(3)], rel=1e-13)
    for start in (0, 1, 3):
        assert omega(t, k, 8, start).tolist() == pytest.approx(
            [sum(omegas(t, start, k, s)) for s in range(9)], rel=1e-13
        )
        assert theta(t, k, 8, start).tolist() == pytest.approx(
            [sum(thetas(t, start, k, s)) for s in range(9)], rel=1e-13
        )


@representatives("1-1")
@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize("k", [1, 4, 30])
def test_the_lemmas_on_theta_and_chi_hold(t, k):
    """B.1.183, B.1.190, B.1.215 and B.1.216."""
    room = 1e-12
    high, low = ([omega(t, k - s, k) for s in range(k + 1)], [omega(t, k, k, s) for s in range(k + 1)])
    thetas = [theta(t, i, k) for i in range(k + 1)]
    for s in range(k + 1):
        upper, lower = (sum(comb(s, r) * float(of[s - r][r]) for r in range(s + 1)) for of in (high, low))
        assert lower * (1 - room) <= float(thetas[k][s]) <= upper * (1 + room)
        upper, lower = (sum(comb(s + 1, r + 1) * float(of[s - r][r]) for r in range(s + 1)) for of in (high, low))
        value = float(chi(t, k)[s]) - (k == s)
        assert lower / (t + k) * (1 - room) <= value <= upper / (t + k - s) * (1 + room)
        assert value == pytest.approx(sum(float(thetas[k - i][s - i]) / (t + k - i) for i in range(s + 1)))
        if s < k:
            parts = sum(float(thetas[j][s]) / (t + j) for j in range(s, k))
            assert float(thetas[k][s + 1]) == pytest.approx(float(thetas[k - 1][s]) + parts)


def linear_derivative(V, weights, t, last):
    """Return ds_last / dh_t by autograd, for a linear network with constant weights; steps are numbered from 1."""
    size = len(V)

    def final(push):
        s, states = torch.zeros(size, dtype=torch.float64), []
        for now in range(1, last + 1):
            h = V @ s + torch.arange(size) * now
            states.append(h + push if now == t else h)
            s = states[-1] + sum(weights[now - 1, i] * state for i, state in enumerate(states))
        return s

    return torch.autograd.functional.jacobian(final, torch.zeros(size, dtype=torch.float64))


def uniform(length):
    return sparse_uniform(torch.ones(length, length, dtype=torch.bool).tril())


def sparse(length):
    some = torch.rand(length, length, generator=torch.Generator().manual_seed(3)) < 0.3
    return sparse_uniform((some | torch.eye(length, dtype=torch.bool)).tril())


@pytest.mark.parametrize("weights", [uniform(12), sparse(12)], ids=["uniform", "sparse"])
def test_the_polynomial_in_V_equals_the_derivative(weights):
    V = randn(4, 4) / 3
    norms = linear_norms(V, weights)
    for t in range(1, 13):
        true = linear_derivative(V, weights, t, 12)
        assert (polynomial(V, chi_of(weights, t, 12 - t)) - true).abs().max() < 1e-12
        assert float(norms[t - 1]) == pytest.approx(float(true.norm()), rel=1e-12)
        if torch.equal(weights, uniform(12)):
            assert (polynomial(V, chi(t, 12 - t)) - true).abs().max() < 1e-12


def test_sparse_chi_equals_the_sum_over_subsets():
    """B.1.274, as printed."""
    weights, t, k = sparse(9), 2, 6
    for s in range(k + 1):
        total = float(weights[t + k - 1, t - 1]) if s == 0 else 0.0
        for chosen in combinations(range(k), s) if s else ():
            ends = (*chosen, k)
            product = float(weights[t + chosen[0] - 1, t - 1]) + (chosen[0] == 0)
            for low, high in pairwise(ends):
                product *= float(weights[t + high - 1, t + low]) + (high - low == 1)
            total += product
        assert float(chi_of(weights, t, k)[s]) == pytest.approx(total, rel=1e-13)


def test_linear_norms_match_a_linear_network_with_uniform_attention():
    cell = Attentive(Elman(2, 4, "linear"), FullHistory(), scale=0.7).double()
    nn.init.zeros_(cell.alignment.direction)  # uniform, whatever the states; the scores have no gradient
    found = torch.zeros(10, dtype=torch.float64)
    for unit in range(4):
        result = gradient_norms(cell, randn(10, 1, 2), lambda outputs, unit=unit: outputs[-1, 0, unit])
        found += result.norms[0, :, 0].square()
    V = cell.cell.connectivity().detach()
    assert torch.allclose(found.sqrt(), linear_norms(V, uniform(10), 0.7), rtol=1e-12)


@representatives("4-0.2")
@pytest.mark.parametrize("value", [-0.9, -0.5, 0.0, 0.2, 0.5, 0.5 + 0.45j, -0.3 + 0.5j])
@pytest.mark.parametrize("t", [1, 4])
def test_the_exponent_under_uniform_attention_matches_the_recursion(t, value):
    """The reference is the recursion of B.1.14 up to T. The printed max(-1, Re lambda - 1) is right only for 0."""
    found = {}
    total = now = 1 + 1 / t  # ds_t/dh_t
    for step in range(t + 1, 20_001):
        now = (1 + value * total) / step + value * now
        total += now
        found[step] = abs(now)
    slope = log(found[20_000] / found[5_000]) / log(4)
    assert slope == pytest.approx(uniform_exponent(torch.tensor([value])), abs=1e-3)


def test_linear_networks_respect_the_bounds():
    """If V has an eigenvalue a > 0, a path over d states with j weights of 1 / kappa contributes a^d / kappa^j."""
    weights = sparse(30)
    kappa = int((weights > 0).sum(1).max())
    there = (torch.ones(30, 30).tril() > 0).unsqueeze(-1)
    attention = Attention(weights.unsqueeze(-1), there, torch.ones(30, 1, dtype=torch.bool))
    seen = attention.dependencies(0.0)
    assert seen.sparsity == kappa
    norms = linear_norms(torch.tensor([[0.6]]), weights)
    ways = 0.6 ** seen.depth[:, 0].double()
    assert (norms >= ways * sparse_bound(kappa, seen.skips[:, 0]) * (1 - 1e-12)).all()
    assert (linear_norms(torch.tensor([[0.6]]), uniform(30)) >= uniform_bound(30)).all()
    assert float(scaled(uniform_bound(30), norms)[0]) == pytest.approx(float(norms[-1]) / 30)


def breadth_first(counted, taken):
    """Return the fewest hidden states, then the fewest weights, from the last s back, for one sequence."""
    steps = [t for t in range(len(taken)) if taken[t]]
    found, reached, depth = {}, {steps[-1]: 0}, 0  # by step: fewest weights on the way to its s
    while len(found) < len(steps):
        arrived = {}
        for i, number in reached.items():
            for t in steps:
                if t == i or (t < i and counted[i, t]):
                    cost = number + (t != i)
                    if t not in found:
                        arrived[t] = min(arrived.get(t, cost), cost)
        found |= {t: (depth, cost) for t, cost in arrived.items()}
        reached = {steps[steps.index(t) - 1]: cost for t, cost in arrived.items() if t != steps[0]}
        depth += 1
    return found


@representatives("full-None", "normalised-0.4", "one and one-0.4")
@pytest.mark.parametrize("threshold", [None, 0.0, 0.1, 0.4])
@pytest.mark.parametrize("past", PASTS)
def test_depth_and_skips_match_a_breadth_first_search(past, threshold):
    xs, mask = randn(16, 3, 3), torch.ones(16, 3, dtype=torch.bool)
    mask[[2, 3, 15], 1] = False
    attention = ms.record_attention(attentive(PASTS[past]), xs, mask)
    seen = attention.dependencies(threshold)
    counted = attention.weights > seen.threshold.unsqueeze(1)
    for sample in range(3):
        slow = breadth_first(counted[:, :, sample], mask[:, sample])
        for t, (depth, skips) in slow.items():
            assert (int(seen.depth[t, sample]), int(seen.skips[t, sample])) == (depth, skips)
            assert int(seen.kappa[t, sample]) == int(counted[t, :, sample].sum())


def test_load_reads_what_save_wrote_and_figures_have_their_panels(tmp_path):
    for past, panels in (("screen", 5), ("full", 3)):
        attention = ms.record_attention(attentive(PASTS[past]), randn(20, 2, 3))
        attention.save(tmp_path / "attention.safetensors")
        again = Attention.load(tmp_path / "attention.safetensors")
        assert torch.equal(again.weights, attention.weights)
        assert torch.equal(again.kept, attention.kept)
        assert (again.past, again.short_term) == (attention.past, attention.short_term)
        assert (again.scores is None) == (attention.scores is None)
        assert len(again.figure(1).axes) == panels  # including colour bars
        assert "2 sequences of up to 20 steps" in attention.summary()
        attention.dependencies().save(tmp_path / "dependencies.safetensors")
        loaded = AttentionDependencies.load(tmp_path / "dependencies.safetensors")
        assert torch.equal(loaded.depth, attention.dependencies().depth)
        assert loaded.summary() == attention.dependencies().summary()


@representatives("full")
@pytest.mark.parametrize("past", ["full", "screen"])
def test_the_attention_section_shows_figures_and_table(past):
    cell, xs = attentive(PASTS[past]), randn(20, 2, 3)
    attention = ms.record_attention(cell, xs)
    gradients = gradient_norms(cell, xs, lambda outputs: outputs[-1].sum(), name="<trained>")
    section = attention_section(attention, gradients)
    assert "<trained>" not in section.html
    assert "&lt;trained&gt;" in section.html
    assert ("Relevant states held at the end" in section.html) == (past != "full")
    assert attention.summary() in section.lead
    assert section.html.count("<svg") == (2 if past == "full" else 3)
    with pytest.raises(ValueError, match="of the same sequences"):
        attention_section(attention, gradient_norms(cell, xs[:9], lambda outputs: outputs[-1].sum()))


def test_uniform_attention_keeps_the_first_states():
    """By the published score, the first states are the most relevant under uniform attention."""
    cell = attentive(RelevanceScreen(3, 4))
    nn.init.zeros_(cell.alignment.direction)
    assert ms.record_attention(cell, randn(20, 2, 3)).primacy.tolist() == [1.0, 1.0]
    assert ms.record_attention(cell, randn(3, 2, 3)).primacy.isnan().all()
    assert "first ones seen" not in ms.record_attention(cell, randn(3, 2, 3)).summary()


def test_the_lenses_are_registered():
    assert ms.registry.lenses.load("attention") is ms.record_attention
    assert ms.registry.lenses.load("gradients") is ms.gradient_norms


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: ms.record_attention(GRU(3, 4), randn(5, 1, 3)), TypeError, "attends to its past"),
        (lambda: ms.record_attention(attentive(FullHistory()), randn(5, 1, 4)), ValueError, "takes 3 input features"),
        (
            lambda: ms.record_attention(attentive(FullHistory()), randn(5, 1, 3), torch.ones(1, 5, dtype=torch.bool)),
            ValueError,
            "mask must be of bool",
        ),
        (
            lambda: ms.record_attention(attentive(FullHistory()), randn(5, 1, 3)).dependencies(1.0),
            ValueError,
            "below 1",
        ),
        (lambda: ms.record_attention(attentive(FullHistory()), randn(5, 1, 3)).figure(1), ValueError, "sequence 1"),
        (lambda: ms.record_attention(attentive(FullHistory()), randn(2000, 300, 3)), ValueError, "fewer sequences"),
        (lambda: chi(0, 3), ValueError, "t must be 1 or more"),
        (lambda: chi_of(uniform(4), 2, 3), ValueError, "at least 5 steps"),
        (lambda: sparse_uniform(torch.zeros(2, 2, dtype=torch.bool)), ValueError, "attends to none"),
        (lambda: uniform_exponent(torch.tensor([1.0])), ValueError, "modulus below 1"),
        (lambda: uniform_bound(0), ValueError, "at least one step"),
        (lambda: sparse_bound(0, torch.tensor([1])), ValueError, "kappa is 0"),
    ],
)
def test_bad_input_raises_with_a_reason(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
