"""Every lens takes a torch.nn module, a cell or a function alike, in the layout of the network."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import mnemoscope as ms
from mnemoscope.lenses.fixed_points import FromTrajectories
from mnemoscope.lenses.fixed_points.view import project_state_space
from tests.slow import SLOW, representatives

ROUNDING = 1e-12
NETWORKS = {
    "torch.nn": lambda: torch.nn.GRU(2, 3),
    "batch first": lambda: torch.nn.GRU(2, 3, batch_first=True),
    "cell": lambda: ms.networks.gru(2, 3),
    "function": lambda: lambda x, h: torch.tanh(0.5 * h + x.sum(-1, keepdim=True)),
}
STARTS = torch.linspace(-0.5, 0.5, 12).reshape(4, 3).double()
LENSES = {
    "fixed points": lambda network: ms.find_fixed_points(network, STARTS).states,
    "cycles": lambda network: ms.find_cycles(network, 1, STARTS).states,
    "attractors": lambda network: ms.find_attractors(network, STARTS, transient=50, steps=50, max_period=4).states,
    "lyapunov": lambda network: ms.lyapunov_spectrum(network, 1, 40, 10, STARTS).mean,
    "slow manifold": lambda network: ms.find_slow_manifold(network, starts=STARTS, steps=4).states,
    "transients": lambda network: ms.transients(network, 3, STARTS).norms,
    "spectrum": lambda network: ms.spectrum(network, torch.zeros(3)).eigenvalues,
    "fisher memory": lambda network: ms.fisher_memory(network, torch.ones(3), state=torch.zeros(3), lags=2).curve,
    "capacity": lambda network: ms.memory_capacity(network, torch.ones(3), state=torch.zeros(3), lags=2).curve,
}


@representatives(
    "attractors-torch.nn",
    "capacity-cell",
    "capacity-function",
    "cycles-batch first",
    "cycles-function",
    "fisher memory-batch first",
    "lyapunov-cell",
    "lyapunov-function",
    "slow manifold-batch first",
    "spectrum-cell",
    "transients-torch.nn",
)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("lens", LENSES)
def test_lenses_take_any_network_as_they_take_its_dynamics(lens, network):
    network = NETWORKS[network]()
    adapted = ms.Dynamics(ms.adapt(network, state_size=3) if not isinstance(network, torch.nn.Module) else network)
    torch.testing.assert_close(LENSES[lens](network), LENSES[lens](adapted), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("lens", [ms.find_fixed_points, ms.find_attractors, ms.spectrum, ms.transients])
def test_lenses_name_the_remedy_for_what_they_cannot_take(lens):
    with pytest.raises(TypeError, match=r"pass the cell itself, network\.cell \(GRU\)"):
        lens(ms.Model(ms.networks.gru(2, 3), 1))
    with pytest.raises(ValueError, match=r"ms\.adapt\(network, state=\.\.\.\)"):
        lens(lambda x, h: h)


def pair():
    """Return a network that is time first and one with the same weights that is batch first."""
    one, other = torch.nn.RNN(2, 3), torch.nn.RNN(2, 3, batch_first=True)
    other.load_state_dict(one.state_dict())
    return one.double(), other.double()


def planted_model(network):
    """Return a model of a network with a readout that is always the same."""
    torch.manual_seed(0)
    return ms.Model(network, 2).double()


XS = torch.randn(8, 5, 2, generator=torch.Generator().manual_seed(0)).double()
LENGTHS = [8, 2, 5, 8, 3]
READOUT = torch.eye(3)[:2]
WITH_INPUTS = {
    "gradients": lambda network, xs: ms.gradient_norms(network, xs, lambda outputs: outputs.square().sum()).norms,
    "gradients of lengths": lambda network, xs: (
        ms.gradient_norms(network, xs, lambda outputs: outputs.square().sum(), lengths=LENGTHS).norms
    ),
    "gradients by part": lambda network, xs: (
        ms.gradient_norms(network, xs, lambda outputs: outputs.square().sum(), by="part").norms
    ),
    "starts": lambda network, xs: FromTrajectories(xs, 40).draw(ms.Dynamics(network), torch.Generator()),
    "fixed points": lambda network, xs: ms.find_fixed_points(network, FromTrajectories(xs, 4)).states,
    "fisher memory": lambda network, xs: ms.fisher_memory(network, 0, along=xs, lags=3).curve,
    "lyapunov": lambda network, xs: (
        ms.lyapunov_spectrum(
            network,
            1,
            40,
            0,
            STARTS[[0] * 5],
            inputs=xs.repeat(*((1, 5, 1) if isinstance(network, torch.nn.RNN) and network.batch_first else (5, 1, 1))),
        ).mean
    ),
    "behaviour": lambda network, xs: (
        ms.record_behaviour(network, xs, xs, readout=lambda outputs: outputs[..., :2]).outputs
    ),
    "behaviour of a model": lambda network, xs: ms.record_behaviour(planted_model(network), xs, xs).outputs,
    "energy": lambda network, xs: ms.energy_descent(network, ms.run_with_cache(network, xs)[1].flat()).energy,
    "variables": lambda network, xs: ms.find_variables(
        network, READOUT, inputs=torch.cat([xs, torch.zeros_like(xs)], int(network.batch_first)), around="states"
    ).modes.eigenvalues.abs(),
}


@pytest.mark.parametrize("lens", WITH_INPUTS)
def test_inputs_are_in_the_layout_of_the_network(lens):
    time_first, batch_first = pair()
    expected = WITH_INPUTS[lens](time_first, XS)
    found = WITH_INPUTS[lens](batch_first, XS.transpose(0, 1))
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING, equal_nan=True)


def test_the_loss_of_the_gradient_lens_sees_outputs_in_the_layout_of_the_network():
    network, shapes = pair()[1], []
    ms.gradient_norms(network, XS.transpose(0, 1), lambda outputs: shapes.append(outputs.shape) or outputs[:, -1].sum())
    assert shapes == [(5, 8, 3)]


def test_the_gradient_lens_takes_packed_sequences():
    network = pair()[0]
    packed = pack_padded_sequence(XS, LENGTHS, enforce_sorted=False)
    found = ms.gradient_norms(network, packed, lambda outputs: outputs.data.square().sum()).norms
    alone = ms.gradient_norms(network, XS[:2, 1:2], lambda outputs: outputs.square().sum()).norms
    torch.testing.assert_close(found[:, :2, 1:2], alone, rtol=0, atol=ROUNDING)
    assert found[:, 2:, 1].isnan().all()


def test_figures_draw_whole_trials_of_batch_first_networks(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "mnemoscope.lenses.fixed_points.figure.project_state_space",
        lambda *given: drawn.append(project_state_space(*given)) or drawn[-1],
    )
    for network, xs in zip(pair(), (XS, XS.transpose(0, 1)), strict=True):
        fp = ms.find_fixed_points(network)
        assert fp[0].batch_first == fp.batch_first == network.batch_first
        fp.figure(ms.run_with_cache(network, xs)[1].flat().detach())
    assert drawn[1].paths.shape[:2] == (5, 8)
    np.testing.assert_allclose(drawn[1].paths, drawn[0].paths, rtol=0, atol=1e-9)


def test_figures_explain_that_an_output_is_a_part_of_the_state():
    network = torch.nn.LSTM(2, 3)
    fp = ms.find_fixed_points(network, torch.zeros(1, 6))
    with pytest.raises(ValueError, match=r"run_with_cache\(network, inputs\)\[1\]\.flat\(\)"):
        fp.figure(network(XS.float())[0].detach())


@pytest.mark.parametrize("options", [{"lengths": LENGTHS}, {"mask": torch.arange(8)[:, None] < torch.tensor(LENGTHS)}])
def test_starts_come_from_states_before_the_end_of_a_sequence(options):
    network = pair()[0]
    dynamics = ms.Dynamics(network)
    padded = XS.clone()
    padded[2:, 1] = torch.nan
    drawn = FromTrajectories(padded, sum(LENGTHS), **options).draw(dynamics, torch.Generator())
    states = ms.run_with_cache(network, XS)[1].flat().detach()
    visited = torch.cat([states[:length, row] for row, length in enumerate(LENGTHS)])
    apart = torch.cdist(drawn, visited, compute_mode="donot_use_mm_for_euclid_dist")
    assert apart.min(1).values.max() < ROUNDING  # every start is such a state
    assert apart.min(0).values.max() < ROUNDING  # and every such state is a start


def test_the_slow_manifold_lens_takes_lengths():
    network = pair()[0]
    found = ms.find_slow_manifold(network, XS, steps=4, lengths=LENGTHS)
    assert len(found.kept) == sum(LENGTHS)


def test_attention_is_recorded_from_sequences_of_unequal_length():
    cell = ms.networks.memrnn(2, 4).double()
    by_mask = ms.record_attention(cell, XS, torch.arange(8)[:, None] < torch.tensor(LENGTHS))
    by_length = ms.record_attention(cell, XS, lengths=LENGTHS)
    assert torch.equal(by_length.weights, by_mask.weights)
    assert torch.equal(by_length.taken, by_mask.taken)


MASK = torch.arange(8)[:, None] < torch.tensor(LENGTHS)
PADDED = XS.masked_fill(~MASK.unsqueeze(-1), torch.nan)
WITH_LENGTHS = {
    "lengths": (PADDED, {"lengths": LENGTHS}),
    "mask": (PADDED, {"mask": MASK}),
    "packed": (pack_padded_sequence(XS, LENGTHS, enforce_sorted=False), {}),
    "mask with gaps": (PADDED.flip(0), {"mask": MASK.flip(0)}),
}


def alone(row):
    """Return one of the sequences, without padding."""
    return XS[: LENGTHS[row], row : row + 1]


@representatives("mask with gaps", "packed")
@pytest.mark.parametrize("given", WITH_LENGTHS)
def test_the_fisher_memory_of_a_sequence_is_that_at_its_own_end(given, tmp_path):
    network, (xs, options) = pair()[0], WITH_LENGTHS[given]
    memory = ms.fisher_memory(network, 0, along=xs, **options)
    for row, length in enumerate(LENGTHS):
        inputs = alone(row).flip(0) if given == "mask with gaps" else alone(row)
        expected = ms.fisher_memory(network, 0, along=inputs)
        for name in ("traces", "input_information"):
            found = getattr(memory, name)[row]
            torch.testing.assert_close(found[:length], getattr(expected, name)[0], rtol=0, atol=ROUNDING)
            assert found[length:].isnan().all()
        for name in ("total", "bound", "factor"):
            found = getattr(memory, name)[row]
            torch.testing.assert_close(found, getattr(expected, name)[0], rtol=0, atol=ROUNDING)
    memory.save(tmp_path / "memory.safetensors")
    assert ms.FisherMemory.load(tmp_path / "memory.safetensors").lengths.tolist() == LENGTHS
    assert "After 5 trajectories of 2 to 8 steps" in memory.summary()
    assert memory.figure().axes


@representatives("mask with gaps", "packed")
@pytest.mark.parametrize("given", WITH_LENGTHS)
def test_the_exponents_of_a_start_are_averages_over_its_own_steps(given):
    network, (xs, options), starts = pair()[0], WITH_LENGTHS[given], STARTS[[0, 1, 2, 3, 0]]
    run = {"count": 2, "transient": 2, "starts": starts}
    if given == "packed":
        inputs = pack_padded_sequence(XS.repeat(15, 1, 1), [15 * length for length in LENGTHS], enforce_sorted=False)
        expected = [XS.repeat(15, 1, 1)[: 15 * length, row] for row, length in enumerate(LENGTHS)]
    else:
        inputs = xs.repeat_interleave(15, 0)
        expected = [row[row.isfinite().all(1)] for row in inputs.unbind(1)]
        options = {
            name: [15 * length for length in value] if name == "lengths" else value.repeat_interleave(15, 0)
            for name, value in options.items()
        }
    found = ms.lyapunov_spectrum(network, inputs=inputs, **run, **options)
    assert found.steps_of_starts.tolist() == [(15 * length - 2) // 20 * 20 for length in LENGTHS]
    assert "over 20 to 100 steps from 5 starts" in found.summary()
    assert "stretched" in found.figure().axes[1].get_xlabel()
    for row in (0, 1):
        same = ms.lyapunov_spectrum(network, inputs=expected[row], **run)  # the sequence of this start for all
        assert same.steps_of_starts is None
        torch.testing.assert_close(found.blocks[row], same.blocks[row], rtol=0, atol=ROUNDING)


@representatives("mask with gaps", "packed")
@pytest.mark.parametrize("given", WITH_LENGTHS)
def test_a_tape_is_recorded_from_sequences_of_unequal_length(given, tmp_path):
    machine, (xs, options) = ms.networks.ntm(2, 4, slots=5, slot_size=3).double(), WITH_LENGTHS[given]
    tape = ms.record_tape(machine, xs, **options)
    assert torch.equal(tape.taken, MASK.flip(0) if given == "mask with gaps" else MASK)
    for row in range(len(LENGTHS)):
        inputs = alone(row).flip(0) if given == "mask with gaps" else alone(row)
        expected = ms.record_tape(machine, inputs)
        for name in ("inputs", "outputs", "memory", "added", "write_weights", "read_weights"):
            found = getattr(tape, name)[tape.taken[:, row], row]
            torch.testing.assert_close(found, getattr(expected, name)[:, 0], rtol=0, atol=ROUNDING)
        torch.testing.assert_close(tape.memory[-1, row], expected.memory[-1, 0], rtol=0, atol=ROUNDING)
    assert tape.write_weights[~tape.taken].isnan().all()
    assert "5 sequences of 2 to 8 steps" in tape.summary()
    assert min(tape.sharpness) > 0
    tape.save(tmp_path / "tape.safetensors")
    assert torch.equal(ms.lenses.Tape.load(tmp_path / "tape.safetensors").taken, tape.taken)
    weights = tape.figure(1).axes[4].images[0].get_array()
    assert weights.shape[1] == LENGTHS[1]  # the steps that this sequence has


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: ms.fisher_memory(net, 0, lengths=[3]), "pass along="),
        (lambda net: ms.fisher_memory(net, 0, along=XS, mask=MASK & (MASK.sum(0) > 2)), "no input to 1 of 5 sequences"),
        (lambda net: ms.lyapunov_spectrum(net, lengths=[3]), "pass inputs="),
        (lambda net: ms.lyapunov_spectrum(net, inputs=XS[:, 0], lengths=[3]), "cut it instead"),
        (lambda net: ms.lyapunov_spectrum(net, starts=5, transient=4, inputs=XS, lengths=LENGTHS), "At least 20 steps"),
        (lambda net: ms.find_variables(net, READOUT, inputs=WITH_LENGTHS["packed"][0]), "2 to 8 steps: pass those of"),
        (lambda net: ms.find_variables(net, READOUT, inputs=XS[..., :1]), r"must be \(time, batch, 2\)"),
    ],
)
def test_lenses_name_the_remedy_for_lengths_that_they_cannot_take(call, message):
    with pytest.raises(ValueError, match=message):
        call(pair()[0])


NESTED = ms.adapt(torch.nn.GRUCell(2, 3).forward, state=torch.zeros(1, 3))
WRONG = [
    (lambda: ms.find_fixed_points(NESTED), "pass input_size=... to ms.adapt"),
    (
        lambda: ms.scan(torch.nn.GRU(2, 3, batch_first=True), torch.zeros(9, 4, 5)),
        r"\(9, 4, 5\); expected \(batch, time, 2",
    ),
    (lambda: ms.scan(torch.nn.GRU(2, 3, batch_first=True), torch.zeros(9, 2)), r"\(9, 2\); .* xs\.unsqueeze\(0\)"),
    (lambda: ms.scan(torch.nn.GRU(2, 3), torch.zeros(9, 2)), r"xs\.unsqueeze\(1\)"),
    (
        lambda: ms.scan(torch.nn.GRU(2, 3, batch_first=True), torch.zeros(9, 0, 2)),
        r"empty: .*\(9, 0, 2\), \(batch, time",
    ),
    (
        lambda: ms.gradient_norms(torch.nn.GRU(2, 3), XS.float(), lambda outputs: outputs),
        r"one number.* shape \(8, 5, 3\)",
    ),
    (lambda: ms.gradient_norms(torch.nn.GRU(2, 3), XS.float(), lambda outputs: 1.0), "one number.* a float"),
    (lambda: ms.transients(torch.eye(2), steps=0), "steps must be a whole number"),
    (lambda: ms.find_fixed_points(torch.nn.GRU(2, 3), 64), "starts must be states, .* but is 64"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_argument_is_answered_with_its_remedy(number):
    call, message = WRONG[number]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@SLOW
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ms.train('flipflop')", "TypeError: train takes a RunConfig, such as mnemoscope.config.PRESETS['flipflop']"),
        ("ms.scan(torch.nn.GRU(2, 3), [[1.0, 2.0]])", "but a list was given. torch.as_tensor(...) converts arrays"),
        ("ms.transients(torch.eye(2), 2.5)", "steps must be a whole number, at least 1, but is 2.5"),
    ],
)
def test_a_wrong_type_is_answered_with_its_remedy(call, message):
    """In another process: here annotations are checked, and their error comes first."""
    command = [sys.executable, "-c", f"import torch; import mnemoscope as ms; {call}"]
    assert message in subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_variables_take_packed_trials_of_one_length():
    network, trials = pair()[0], torch.cat([XS, torch.zeros_like(XS)])
    packed = pack_padded_sequence(trials, [16] * 5)
    found = [ms.find_variables(network, READOUT, inputs=xs, around="states") for xs in (trials, packed)]
    assert torch.equal(found[0].modes.eigenvalues, found[1].modes.eigenvalues)


def test_capacity_is_measured_whatever_the_layout():
    one, other = pair()
    curves = [ms.measure_memory_capacity(network, delays=3, steps=200).curve for network in (one, other)]
    torch.testing.assert_close(*curves, rtol=0, atol=ROUNDING)


def test_trials_of_one_step_have_a_behaviour():
    network = torch.nn.GRU(1, 8, batch_first=True)
    behaviour = ms.record_behaviour(network, torch.randn(16, 1, 1), torch.zeros(16, 1, 8))
    assert behaviour.summary().startswith("Over 16 trials of 1 step")


def test_a_readout_of_another_precision_is_refused_by_name():
    network, readout = torch.nn.GRU(1, 8, batch_first=True), torch.nn.Linear(8, 2).double()
    with pytest.raises(ValueError, match=r"weights of the readout are torch.float64, but the outputs of the network"):
        ms.record_behaviour(network, torch.randn(4, 5, 1), torch.randn(4, 5, 2), readout=readout)
