"""The predictability lens: known exponents, and its prediction against the iterations that Newton's method takes."""

import math

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import DiagonalGRU, Elman, Newton
from mnemoscope.connectivity import Dense


def tanh_network(gain, units=20):
    matrix = torch.randn(units, units, generator=torch.manual_seed(3), dtype=torch.float64) / units**0.5
    return Elman(2, units, "tanh", Dense.from_matrix(gain * matrix), bias=False).double()


def weak_inputs(time, batch=1):
    return 0.1 * torch.randn(time, batch, 2, generator=torch.manual_seed(4), dtype=torch.float64)


@pytest.mark.parametrize(("gain", "converges"), [(0.5, True), (2.5, False)])
def test_the_prediction_is_close_on_both_sides_of_the_edge_of_chaos(gain, converges):
    cell, xs, options = tanh_network(gain), weak_inputs(200), Newton(iterations=200)
    found = ms.measure_predictability(cell, xs, newton=options, lengths=(16, 32, 64))
    assert found.converges is converges
    assert found.pays is converges
    measured = ms.scan(cell, xs, backend=options, explain=True)[2].iterations
    assert found.predicted[1] == pytest.approx(measured, rel=0.25, abs=1)


def test_the_exponent_of_a_linear_network_is_the_logarithm_of_its_modulus():
    orthogonal = torch.linalg.qr(torch.randn(4, 4, generator=torch.manual_seed(0), dtype=torch.float64))[0]
    cell = Elman(2, 4, "linear", Dense.from_matrix(0.7 * orthogonal)).double()
    found = ms.measure_predictability(cell, weak_inputs(100, batch=3))
    torch.testing.assert_close(found.exponents, torch.full((3,), math.log(0.7), dtype=torch.float64))
    assert found.iterations.tolist() == [1, 1]
    assert found.predicted == (1, 1)


def test_a_count_that_did_not_converge_is_the_last_and_is_named():
    found = ms.measure_predictability(tanh_network(3.0), weak_inputs(200), newton=Newton(iterations=5))
    assert not found.finished
    assert found.iterations.tolist() == [5]
    assert "did not converge on the last within the limit of 5" in found.summary()
    assert found.pays is False


def test_an_exponent_near_zero_leaves_a_range():
    found = ms.Predictability(
        torch.tensor([0.001]), torch.tensor([0.002]), torch.tensor([32, 64]), torch.tensor([6, 8]), True, 100, 6400, 800
    )
    assert found.converges is None
    assert found.predicted == (8 + math.ceil(2 * math.log2(100)), 800)
    assert found.pays is None
    assert "22 to 800 are expected" in found.summary()


@pytest.mark.parametrize(("exponent", "counts"), [(-0.1, [20, 39]), (0.1, [20, 21])])
def test_counts_that_contradict_the_exponent_leave_a_range(exponent, counts):
    found = ms.Predictability(
        torch.tensor([exponent]),
        torch.tensor([0.01]),
        torch.tensor([64, 128]),
        torch.tensor(counts),
        True,
        100,
        640,
        800,
    )
    assert found.forgets is (exponent < 0)
    assert found.converges is None
    assert found.predicted[0] < found.predicted[1] == counts[-1] * 5
    assert "but the iterations below do not agree" in found.summary()


def test_a_module_with_batch_first_and_a_given_state_are_read(tmp_path):
    torch.manual_seed(0)
    gru = torch.nn.GRU(2, 5, batch_first=True)
    found = ms.measure_predictability(gru, weak_inputs(80, 3).float().transpose(0, 1), state=torch.ones(3, 5))
    assert found.exponents.shape == (3,)
    assert found.time == 80
    assert found.converges
    found.save(tmp_path / "found.safetensors")
    assert ms.Predictability.load(tmp_path / "found.safetensors").summary() == found.summary()
    assert found.figure().axes[0].get_xlabel() == "steps"


def test_wrong_arguments_are_refused():
    cell, xs = DiagonalGRU(2, 3).double(), weak_inputs(60)
    with pytest.raises(ValueError, match="takes at least 40 inputs, but there are 30"):
        ms.measure_predictability(cell, xs[:30])
    with pytest.raises(ValueError, match="lengths must ascend from 1 to at most 60"):
        ms.measure_predictability(cell, xs, lengths=(32, 61))
    with pytest.raises(ValueError, match="its state grows"):
        ms.measure_predictability(ms.networks.memrnn(2, 3).double(), xs)
