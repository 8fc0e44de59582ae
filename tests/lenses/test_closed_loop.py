"""Networks that read their own outputs: planted loops, brute-force references, multipliers, and what is refused."""

from importlib import import_module
from importlib.util import find_spec
from math import cos, log, pi, sin
from pathlib import Path

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.lenses.closed_loop import floquet
from mnemoscope.lenses.closed_loop.feedback import loop_cell, read_prompts
from mnemoscope.lenses.closed_loop.generation import first_tokens, generate


def register(slots=3, tokens=2):
    """Return a network that repeats its last tokens: its state holds them, and its output is the oldest."""
    return ms.adapt(
        lambda x, h: torch.cat([h[:, tokens:], x], 1),
        state_size=slots * tokens,
        input_size=tokens,
        output=lambda h: h[:, :tokens],
    )


def turning(angle, radius=1.0):
    """Return a network whose state turns by an angle per step, and whose two tokens are the signs of its first unit."""
    c, s = cos(angle) * radius, sin(angle) * radius
    return ms.adapt(
        lambda x, h: torch.stack([c * h[:, 0] - s * h[:, 1], s * h[:, 0] + c * h[:, 1]], 1),
        state=torch.tensor([[1.0, 0.3]]),
        input_size=2,
        output=lambda h: torch.stack([h[:, 0], -h[:, 0]], 1),
    )


def random_model(seed, tokens=5, units=6, encode=None, features=None):
    """Return a tanh network with large random weights, in float64."""
    model = ms.Model(ms.cells.Elman(features or tokens, units, "tanh"), tokens, encode=encode).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part, scale in ((model.cell, 0.6), (model.readout, 1.0)):
            for weight in part.parameters():
                weight.copy_(scale * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return model


def random_prompts(tokens=5, number=6):
    return torch.randint(tokens, (3, number), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def written(model, prompt, steps):
    """Return the greedy tokens after one prompt, and the states in which each is read, one step at a time."""
    eye, state = torch.eye(model.readout.out_features, dtype=torch.float64), model.cell.initial_state(1)
    for token in prompt.tolist():
        state = model.cell(eye[token][None], state)
    tokens, states = [], []
    for _ in range(steps + 1):
        tokens.append(int(model.readout(state).argmax()))
        states.append(state[0])
        state = model.cell(eye[tokens[-1]][None], state)
    return tokens, states


def brute_force(model, prompt, steps, longest):
    """Return the least period of tokens and states at the end, the loop in its first rotation, and its beginning."""
    tokens, states = written(model, prompt, steps)
    for period in range(1, longest + 1):
        if tokens[-period * 2 :] == tokens[-3 * period : -period] and (states[-1] - states[-1 - period]).norm() < 1e-6:
            loop = tokens[-period:]
            first = min(loop[turn:] + loop[:turn] for turn in range(period))
            begin = next(
                t for t in range(steps) if all(a == b for a, b in zip(tokens[t:], tokens[t + period :], strict=False))
            )
            return period, tuple(first), begin
    return 0, (), -1


def test_a_register_repeats_every_necklace_of_its_last_tokens():
    prompts = torch.cartesian_prod(*[torch.arange(2)] * 3).T
    loops = ms.find_loops(register(), prompts, nn.Identity(), vocabulary="ab", steps=40, max_period=8)
    assert sorted(loops.texts) == ["a", "aab", "abb", "b"]
    assert loops.counts.tolist() == [3, 3, 1, 1]
    assert loops.periods.tolist() == [3, 3, 1, 1]
    assert loops.entered.tolist() == [0] * 8
    assert loops.confirmed.all()
    assert float(loops.multipliers.abs().max()) == 0  # with the tokens held, the register forgets its past
    assert loops.settled == 1
    assert loops.tokens_of(0).tolist() == [0, 0, 1]
    assert "forgotten within one period" in loops.summary()
    low, high = loops.entry_interval(0)
    assert low <= loops.entry(0)[0] <= high
    assert "95% interval 0 to 0, quartiles 0 to 0" in loops.summary()
    low, high = loops.interval
    assert float(low[0]) < 3 / 8 < float(high[0])
    assert float(loops.distances.max()) == 0


@pytest.mark.parametrize("seed", [6, 10])
def test_loops_of_random_networks_are_those_of_a_naive_loop(seed):
    model, prompts = random_model(seed), random_prompts()
    loops = ms.find_loops(model, prompts, steps=120, max_period=12)
    expected = [brute_force(model, prompt, loops.steps, 12) for prompt in prompts.T]
    for prompt, (period, tokens, begin) in enumerate(expected):
        loop = int(loops.member[prompt])
        assert (loop >= 0) == (period > 0)
        if period:
            assert tuple(loops.tokens_of(loop).tolist()) == tokens
            assert int(loops.entered[prompt]) == begin
    assert loops.settled > 0


def test_multipliers_are_those_of_the_map_over_a_loop_with_its_tokens_held():
    model = random_model(6)
    loops = ms.find_loops(model, random_prompts(), steps=120, max_period=12)
    loop = int(loops.periods.argmax())
    tokens, state = loops.tokens_of(loop), loops.states[loop, :6][None]
    eye = torch.eye(5, dtype=torch.float64)

    def around(h):
        for token in tokens:
            h = model.cell(eye[token][None], h)
        return h

    torch.testing.assert_close(around(state), state, atol=1e-9, rtol=0)
    step = 1e-6
    columns = [
        (around(state + step * e) - around(state - step * e))[0].detach() / (2 * step) for e in torch.eye(6).double()
    ]
    largest = torch.linalg.eigvals(torch.stack(columns, 1)).abs().max()
    torch.testing.assert_close(loops.multipliers[loop, 0].abs(), largest, atol=1e-6, rtol=1e-4)
    assert abs(float(loops.rates[loop]) - log(largest) / len(tokens)) < 1e-3
    found = ms.find_cycles(ms.close_loop(model), len(tokens), loops.states[loop][None])
    (number,) = found.of_period(len(tokens))
    torch.testing.assert_close(found.multipliers[number, 0].abs(), loops.multipliers[loop, 0].abs())


def test_multipliers_of_large_states_come_from_products(monkeypatch):
    model = random_model(6)
    dense = ms.find_loops(model, random_prompts(), steps=120, max_period=12)
    monkeypatch.setattr(floquet, "DENSE", 5)
    products = ms.find_loops(model, random_prompts(), steps=120, max_period=12)
    torch.testing.assert_close(products.multipliers[:, 0].abs(), dense.multipliers[:, 0].abs(), rtol=1e-6, atol=1e-8)
    assert not products.confirmed.any()
    assert "in the simulation alone" in products.summary()
    monkeypatch.setattr(floquet, "leading_eigenpairs", lambda *_, **__: None)  # as if ARPACK had not converged
    unknown = ms.find_loops(register(), torch.zeros(3, 1, dtype=torch.int64), nn.Identity(), steps=40, max_period=4)
    assert unknown.multipliers.isnan().all()
    assert "multipliers are not known" in unknown.summary()


def test_loops_that_newton_is_not_asked_to_confirm_have_no_multipliers():
    loops = ms.find_loops(random_model(6), random_prompts(), steps=120, max_period=12, confirm=0)
    assert loops.multipliers.isnan().all()
    assert not loops.confirmed.any()


def test_the_distance_to_a_loop_falls_at_the_rate_of_its_multiplier():
    loops = ms.find_loops(random_model(6), random_prompts(), steps=120, max_period=12)
    for prompt, path in zip(loops.traced.tolist(), loops.distances, strict=True):
        loop = int(loops.member[prompt])
        period, rate = int(loops.periods[loop]), float(loops.rates[loop])
        times = ((path < 1e-3) & (path > 1e-9)).nonzero()[:, 0]
        times = times[times > int(loops.entered[prompt]) + 2 * period]
        first, last = int(times[0]), int(times[0]) + (len(times) - 1) // period * period
        assert last > first
        assert abs(float((path[last] / path[first]).log()) / (last - first) / rate - 1) < 0.1


def test_the_closed_loop_feeds_back_the_mean_input_and_tends_to_the_greedy_one():
    model = random_model(0)
    warm = ms.close_loop(model, temperature=0.7)
    state = warm.origin + 0.1
    cell_state, x = state[:, :6], state[:, 6:]
    new = model.cell(x, cell_state)
    expected = torch.cat([new, torch.softmax(model.readout(new) / 0.7, 1)], 1)
    torch.testing.assert_close(warm(state), expected.detach())
    cold, greedy = ms.close_loop(model, temperature=1e-4), ms.close_loop(model)
    torch.testing.assert_close(cold(state), greedy(state))
    assert warm.invariant  # probabilities stay between 0 and 1, and the state in the box of the cell
    assert ms.find_fixed_points(warm).index_sum == 1
    torch.testing.assert_close(loop_cell(warm).output(warm.unflatten(state)), x)


def test_a_low_temperature_has_the_loops_of_greedy_decoding():
    model, prompts = random_model(6), random_prompts()
    greedy = ms.find_loops(model, prompts, steps=120, max_period=12)
    cold = ms.find_loops(model, prompts, temperature=1e-3, steps=120, max_period=12)
    assert cold.texts == greedy.texts
    assert cold.member.tolist() == greedy.member.tolist()
    assert "T = 0.001" in cold.summary()


def test_an_aperiodic_text_and_a_state_that_still_moves_are_not_called_loops():
    prompts = torch.zeros(1, 2, dtype=torch.int64)
    drifting = ms.find_loops(turning(0.0, 0.99), prompts, nn.Identity(), steps=40, max_period=4, patience=1)
    assert drifting.repeating.all()
    assert drifting.steps == 80
    assert drifting.repeated == ("0",)
    assert drifting.repeated_counts.tolist() == [2]
    assert drifting.settled == 0
    assert "the state still moves" in drifting.summary()
    aperiodic = ms.find_loops(turning(1.0), prompts, nn.Identity(), steps=80, max_period=4)
    assert not aperiodic.repeating.any()
    assert len(aperiodic) == 0
    assert aperiodic.steps == 80  # nothing repeats that could settle
    assert "none of 2 prompts" in aperiodic.summary()
    assert "2 prompts (100%, 95% interval 34% to 100%) had not settled" in aperiodic.summary()
    assert "had not settled" in aperiodic.summary()
    neutral = ms.find_loops(turning(pi / 2), prompts, nn.Identity(), steps=80, max_period=4)
    assert neutral.periods.tolist() == [4]
    assert "does not decay" in neutral.summary()


def test_prompts_with_equal_tokens_and_different_states_are_in_different_loops():
    still = ms.adapt(
        lambda x, h: torch.where(h.abs() > 0, h, x[:, :1] + 1),
        state_size=1,
        input_size=2,
        output=lambda h: torch.cat([h, 0 * h], 1),
    )
    loops = ms.find_loops(still, torch.tensor([[0, 1, 1]]), nn.Identity(), steps=20, max_period=4)
    assert loops.texts == ("0", "0")
    assert loops.counts.tolist() == [2, 1]


def test_embeddings_and_linear_encoders_of_a_model_are_fed_back():
    prompts = random_prompts()
    embedding = nn.Embedding(5, 3)
    model = random_model(1, encode=embedding, features=3)
    loops = ms.find_loops(model, prompts, steps=100, max_period=8)
    given = ms.find_loops(model.cell, prompts, model.readout, embed=embedding.weight.detach(), steps=100, max_period=8)
    module = ms.find_loops(model.cell, prompts, model.readout, embed=embedding, steps=100, max_period=8)
    assert loops.texts == given.texts == module.texts
    assert loops.member.tolist() == given.member.tolist()
    linear = nn.Linear(5, 3, bias=False)
    linear.weight.data = embedding.weight.data.T
    encoded = random_model(1, encode=linear, features=3)
    encoded.load_state_dict({**model.state_dict(), "encode.weight": linear.weight})
    assert ms.find_loops(encoded, prompts, steps=100, max_period=8).texts == loops.texts


def test_prompts_may_differ_in_length_and_come_batch_first():
    gru, readout = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 4)
    prompts = torch.tensor([[1, 2, 3], [2, 0, 0]])
    loops = ms.find_loops(gru, prompts, readout, lengths=[3, 1], steps=60, max_period=6)
    alone = ms.find_loops(gru, prompts[1:, :1], readout, steps=60, max_period=6)
    assert loops.texts[int(loops.member[1])] == alone.texts[0]
    assert int(loops.entered[1]) == int(alone.entered[0])


def test_blocks_generate_in_a_closed_loop():
    torch.manual_seed(0)
    model = ms.Model(ms.networks.blocks(4, 8, "gated-deltanet", depth=1, heads=2), 4)
    words = ["the", "of", "a", "in"]
    loops = ms.find_loops(model, random_prompts(4, 3), steps=32, max_period=4, patience=0, confirm=1, vocabulary=words)
    assert loops.prompts == 3
    assert all(set(text.split(" ")) <= {"the", "of", "a", "in"} for text in loops.texts)


def test_a_result_is_saved_and_drawn(tmp_path):
    loops = ms.find_loops(random_model(6), random_prompts(), steps=120, max_period=12)
    loops.save(tmp_path / "loops.safetensors")
    loaded = ms.Loops.load(tmp_path / "loops.safetensors")
    assert loaded.summary() == loops.summary()
    assert len(loaded.figure().axes) == 2
    nothing = ms.find_loops(turning(1.0), torch.zeros(1, 2).long(), nn.Identity(), steps=80, max_period=4)
    assert [text.get_text() for text in nothing.figure().axes[1].texts] == ["no prompt settled"]


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.xdist_group("transformers")
def test_language_models_of_transformers_are_closed_unless_they_attend_to_their_past():
    from tests.cells.tiny_models import WORDS, causal_model

    prompts = torch.randint(1, WORDS, (2, 4), generator=torch.Generator().manual_seed(0))
    model = causal_model("mamba2").double()
    dynamics = ms.close_loop(model)
    with torch.no_grad():
        first = first_tokens(*read_prompts(dynamics, prompts.T, None), window=4)
        tokens = generate(dynamics, first, 8, progress=False).tokens.T
        whole = model(torch.cat([prompts, tokens], 1)).logits  # what the library would choose after each token
    assert torch.equal(whole[:, 3:-1].argmax(-1), tokens)
    loops = ms.find_loops(
        model, prompts, steps=12, max_period=3, confirm=1, vocabulary=lambda tokens: f"{len(tokens)} words"
    )
    assert all(text == f"{period} words" for text, period in zip(loops.texts, loops.periods.tolist(), strict=True))
    state = dynamics.unflatten(dynamics.origin)
    assert state.state.output.shape[1] == 0  # the logits of the last step are no part of the system
    with pytest.raises(ValueError, match=r"attention layers \(\d"):
        ms.close_loop(causal_model("qwen3-next"))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"prompts": torch.zeros(3, 2, 5)}, ValueError, "argmax"),
        ({"prompts": torch.zeros(3, 2)}, ValueError, "token numbers"),
        ({"prompts": torch.full((3, 2), 5)}, ValueError, "from 0 to 4"),
        ({"steps": 30}, ValueError, "at least 32"),
        ({"confirm": -1}, ValueError, "confirm"),
        ({"vocabulary": "abc"}, ValueError, "name each of 5 tokens"),
        ({"temperature": -1.0}, ValueError, "greedy"),
        ({"readout": nn.Identity()}, ValueError, "readout of its own"),
        ({"network": nn.GRU(5, 3)}, ValueError, "pass readout"),
        ({"network": nn.GRU(5, 3), "readout": nn.Linear(3, 4)}, ValueError, "not one-hot"),
        ({"network": nn.GRU(5, 3), "readout": nn.Linear(3, 5), "embed": torch.eye(4)}, ValueError, r"\(tokens, 5\)"),
        ({"network": nn.GRU(5, 3), "readout": lambda h: h, "embed": torch.eye(5)}, ValueError, "one for each token"),
        ({"network": nn.GRU(5, 3), "readout": lambda h: h, "embed": nn.Linear(2, 5)}, ValueError, "not known"),
        ({"network": nn.GRU(5, 3), "readout": lambda h: h, "embed": torch.eye(5)[:1]}, ValueError, "at least two"),
        ({"network": ms.networks.memrnn(5, 3), "readout": nn.Linear(3, 5)}, ValueError, "grows with every token"),
        (
            {"network": ms.adapt(lambda x, h: h * torch.nan, state_size=5, input_size=5), "readout": nn.Identity()},
            ValueError,
            "diverges",
        ),
    ],
)
def test_what_cannot_be_closed_is_refused_with_a_remedy(change, error, match):
    arguments = {"network": random_model(0), "prompts": random_prompts(), "steps": 40, "max_period": 8, **change}
    with pytest.raises(error, match=match):
        ms.find_loops(arguments.pop("network"), arguments.pop("prompts"), arguments.pop("readout", None), **arguments)


def test_the_tables_of_the_page_have_the_measured_loops(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    results = root / "benchmarks" / "results"
    rows = import_module("closed_loop").table(results)
    assert (results / "closed_loop.md").read_text(encoding="utf-8") == rows
    page = (root / "docs" / "closed-loop.md").read_text(encoding="utf-8")
    assert all(part in page for part in rows.strip().split("\n\n"))
