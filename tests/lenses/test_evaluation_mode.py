"""Lenses look at networks in evaluation mode, refuse inputs that are not finite, and explain wrong arguments."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import mnemoscope as ms
from mnemoscope.lenses.whole_network import evaluation_mode

GRU = nn.GRU(2, 6)
XS = torch.randn(20, 8, 2, generator=torch.Generator().manual_seed(0))
YS = torch.randn(20, 8, 2, generator=torch.Generator().manual_seed(1))


def in_training():
    """Return a readout with dropout in training mode, whose answers are random."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 2)).train()


LENSES = {
    "influence": lambda network, readout: ms.measure_influence(network, XS, readout=readout).curve,
    "behaviour": lambda network, readout: ms.record_behaviour(network, XS, YS, readout=readout).score,
    "noise": lambda network, readout: ms.measure_noise_tolerance(network, XS, YS, levels=0, readout=readout).quiet,
}


@pytest.mark.parametrize("name", LENSES)
def test_a_readout_in_training_mode_is_read_without_dropout(name):
    readout = in_training()
    found = LENSES[name](GRU, readout)
    assert readout.training
    assert readout[0].training
    expected = LENSES[name](GRU, readout.eval())
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected))


@pytest.mark.parametrize("name", LENSES)
def test_a_model_in_training_mode_is_read_without_dropout(name):
    torch.manual_seed(2)
    model = ms.Model(ms.cells.GRU(2, 6), 2, encode=nn.Dropout(0.5)).train()
    first, second = (LENSES[name](model, None) for _ in range(2))
    assert model.training
    assert model.encode.training
    assert torch.equal(torch.as_tensor(first), torch.as_tensor(second))


def test_modules_have_their_mode_again_after_an_error():
    parts = [nn.Dropout(), {"b": nn.Sequential(nn.Dropout()).eval()}, "text"]
    with pytest.raises(ZeroDivisionError), evaluation_mode(parts):
        1 / parts[0].training  # 0 in evaluation mode
    assert parts[0].training
    assert not parts[1]["b"].training


def infinite():
    xs = XS.clone()
    xs[3, 5] = torch.inf
    return xs


@pytest.mark.parametrize(
    "lens",
    [
        lambda xs: ms.measure_influence(GRU, xs),
        lambda xs: ms.record_behaviour(GRU, xs, YS, readout=in_training()),
        lambda xs: ms.measure_noise_tolerance(GRU, xs, YS, readout=in_training()),
        lambda xs: ms.gradient_norms(GRU, xs, lambda outputs: outputs.sum()),
        lambda xs: ms.find_slow_manifold(GRU, xs),
        lambda xs: ms.measure_predictability(GRU, xs.repeat(3, 1, 1)),
        lambda xs: ms.inspect(GRU, xs),
    ],
)
def test_inputs_that_are_not_finite_are_refused(lens):
    with pytest.raises(ValueError, match="first in sequence 5 at step 3"):
        lens(infinite())


def test_padding_may_hold_anything():
    xs = XS.clone()
    xs[10:, 0] = torch.nan
    lengths = [10] + [20] * 7
    found = ms.measure_influence(GRU, xs, lengths=lengths)
    assert found.curve[0].isfinite()
    assert ms.record_behaviour(GRU, xs, YS, readout=in_training(), lengths=lengths).score > 0


@pytest.mark.parametrize(
    "lens",
    [
        lambda packed: ms.measure_noise_tolerance(GRU, packed, YS, readout=in_training()),
        lambda packed: ms.measure_predictability(GRU, packed),
    ],
)
def test_a_lens_without_masks_refuses_sequences_of_unequal_length(lens):
    lengths = torch.tensor([60] * 7 + [50])
    with pytest.raises((ValueError, TypeError), match=r"differ in length, from 50 to 60|violates type hint"):
        lens(pack_padded_sequence(XS.repeat(3, 1, 1), lengths))


def test_packed_sequences_are_compared():
    packed = pack_padded_sequence(XS, torch.tensor([20] * 7 + [15]))
    assert len(ms.compare([GRU, nn.GRU(2, 6)], packed, method="cka", draws=2)) == 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ms.find_fixed_points(GRU, tolerances=1e-9), TypeError, "tolerances must be Tolerances"),
        (lambda: ms.find_fixed_points(GRU, solver="newton"), TypeError, r"solver must be a solver, such as Newton\(\)"),
        (lambda: ms.record_behaviour(GRU, XS, YS.numpy()), TypeError, "targets must be a tensor; torch.as_tensor"),
        (lambda: ms.measure_diffusion(GRU, ms.find_fixed_points(GRU), 0.1), TypeError, "memory must be a line or ring"),
        (lambda: ms.measure_basin(GRU, torch.zeros(6), 0.1), TypeError, "attractors must be what find_fixed_points"),
        (
            lambda: ms.by_condition(ms.find_fixed_points, GRU, torch.eye(2)),
            TypeError,
            "inputs must be constant inputs by name",
        ),
        (lambda: ms.measure_memory_capacity(GRU, 0, steps=1e3), ValueError, "steps must be a whole number"),
        (lambda: ms.measure_memory_capacity(GRU, 0, seed=1.5), ValueError, "seed must be a whole number"),
        (lambda: ms.memory_capacity(torch.eye(3) / 2, torch.ones(3), lags=10.0), ValueError, "lags must be a whole"),
        (
            lambda: ms.gradient_norms(GRU, XS, lambda outputs: outputs.sum().detach()),
            ValueError,
            "no gradient: compute",
        ),
        (lambda: ms.gradient_norms(GRU, XS, lambda outputs: outputs.sum() * torch.nan), ValueError, "The loss is nan"),
        (lambda: ms.scan(GRU, XS.long()), ValueError, r"floating-point inputs, .*pass inputs.float\(\)"),
        (lambda: ms.lyapunov_spectrum(GRU, inputs=XS), ValueError, "20 steps, and the first 500 .* transient=4"),
    ],
)
def test_wrong_arguments_are_explained(call, error, message):
    """The type check of arguments, which exists in tests only, may refuse them first."""
    with pytest.raises((error, TypeError), match=f"{message}|violates type hint"):
        call()


def test_arguments_may_have_convenient_types():
    fp = ms.find_fixed_points(nn.RNN(2, 3))
    assert torch.equal(fp[::-1].states, fp.states.flip(0))
    recording = ms.record_activity(GRU, XS, {"side": [0, 1] * 4})
    assert recording.table.names == ("side",)
    given = ms.Recording.from_trials(recording.activity.transpose(0, 1).numpy(), {"side": [0, 1] * 4})
    assert torch.equal(given.activity, recording.activity)
    assert ms.lyapunov_spectrum(GRU, inputs=XS.repeat(3, 1, 1), transient=10).exponents.shape[0] == 8
    assert repr(ms.run_with_cache(GRU, XS)[1]).startswith("Cache(h: (20, 8, 6), r: (20, 8, 6)")


def test_trajectories_may_be_an_array():
    pytest.importorskip("matplotlib")
    fp = ms.find_fixed_points(nn.RNN(2, 3))
    figure = fp.figure(np.random.default_rng(0).normal(size=(9, 2, 3)))
    assert "trajectories" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_result_is_loaded_without_its_class(tmp_path):
    path = ms.find_fixed_points(nn.RNN(2, 3)).save(tmp_path / "new" / "points.safetensors")
    assert isinstance(ms.load_result(path), ms.FixedPoints)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors", {"mnemoscope": '{"kind": "Dynamics"}'})
    with pytest.raises(ValueError, match="does not hold the result of a lens"):
        ms.load_result(tmp_path / "other.safetensors")


def test_rounding_is_not_taken_for_an_exponent():
    for size in (2, 5, 16):
        rotation = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(size)).double())[0]
        system = ms.adapt(lambda x, h, rotation=rotation: h @ rotation.T.to(h), state_size=size)
        found = ms.lyapunov_spectrum(system, steps=200, transient=20, starts=4)
        assert not found.forgets
        assert "indistinguishable from 0" in found.summary()
        assert (found.dimension, found.entropy) == (size, 0)


def test_networks_of_few_units_that_differ_are_not_called_the_same():
    torch.manual_seed(0)
    first, second = nn.GRU(2, 8), nn.GRU(2, 8)
    for parameter in second.parameters():
        parameter.data *= 6
    found = ms.compare([first, second], torch.randn(30, 40, 2), method="cka")
    assert found.verdict(0, 1) in ("similar", "related", "undecided")
    assert not found.are_near(0, 1)


def test_gradients_whose_ends_contradict_their_slope_have_no_rate():
    from mnemoscope.lenses.gradients.result import GradientNorms

    curve = torch.tensor([2.0, 0.1, 0.2, 0.4, 0.8, 1.0], dtype=torch.float64)  # falls back in time, but not at the end
    assert "does not change steadily" in GradientNorms(curve[None, :, None]).summary()
