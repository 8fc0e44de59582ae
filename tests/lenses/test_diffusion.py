"""Diffusion along a planted ring and line, where the coefficient is known."""

from dataclasses import replace
from math import cos, pi, sin

import pytest
import torch

import mnemoscope as ms
from mnemoscope.base.trial_table import Condition
from mnemoscope.lenses.slow_manifold.planted import planted_ring
from tests.slow import SLOW


@pytest.fixture(scope="module")
def ring():
    """A circle of radius 1 without drift, and the slow manifold there."""
    system = ms.Dynamics(planted_ring(0.0, size=3))
    starts = torch.randn(120, 3, generator=torch.Generator().manual_seed(0)).double()
    return system, ms.find_slow_manifold(system, starts=starts, steps=20, delays=(10,))


def test_a_ring_of_radius_one_has_half_the_variance_of_the_noise(ring):
    found = ms.measure_diffusion(*ring, 0.02, relax=20, delays=(10, 20, 40), trials=200)
    assert found.angular == pytest.approx(0.02**2 / 2, rel=0.01)
    assert torch.allclose(found.local, torch.full_like(found.local, found.predicted), rtol=0.05)
    assert found.consistent
    assert found.ring
    assert ((found.variance_low <= found.expected) & (found.expected <= found.variance_high)).all()
    assert "degrees²" in found.summary()
    assert len(found.figure().axes) == 2


def test_the_figure_of_a_ring_takes_trajectories_and_axes(ring):
    paths = torch.randn(5, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    side = Condition("side", torch.tensor([0, 1, 1]))
    left = ring[1].figure(trajectories=paths, colour=side, axes=(0, 2)).axes[0]
    assert (left.get_xlabel(), left.get_ylabel()) == ("unit 0", "unit 2")
    assert {"side 0", "side 1"} <= {line.get_label() for line in left.get_lines()}


def test_a_covariance_acts_through_the_left_tangent(ring):
    system, memory = ring
    generator = torch.Generator().manual_seed(1)
    normal = torch.linalg.svd(memory.states - memory.states.mean(0)).Vh[2]
    across = ms.measure_diffusion(system, memory, 1e-4 * torch.outer(normal, normal), relax=20, delays=(2,), trials=4)
    assert across.predicted < 1e-9 * 1e-4  # noise orthogonal to the plane decays
    turned = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    covariance = 1e-4 * turned @ turned.T
    found = ms.measure_diffusion(system, memory, covariance, relax=20, delays=(2,), trials=4)
    plane = torch.eye(3) - torch.outer(normal, normal)
    # the mean of t^T C t over the tangents of a circle is half the trace of C in its plane
    assert float(found.local.mean()) == pytest.approx(float((plane @ covariance).trace()) / 4, rel=0.1)


def test_non_normal_networks_diffuse_faster():
    J = torch.tensor([[1.0, 1.5], [0.0, 0.5]], dtype=torch.float64)  # the left tangent is (1, 3)
    system = ms.Dynamics(ms.adapt(lambda x, h: h @ J.T, state_size=2))
    starts = torch.randn(80, 2, generator=torch.Generator().manual_seed(0)).double()
    memory = ms.find_slow_manifold(system, starts=starts, steps=20, delays=(10,))
    found = ms.measure_diffusion(system, memory, 0.01, relax=30, delays=(20, 40), trials=300)
    assert found.predicted == pytest.approx(10 * 0.01**2 / 2, rel=1e-3)
    assert found.consistent
    assert found.angular != found.angular
    assert "units of the state" in found.summary()


def test_a_summary_names_what_the_theory_leaves_out(ring):
    found = ms.measure_diffusion(*ring, 0.02, relax=20, delays=(4,), trials=10)
    assert "shorten the delays" in replace(found, predicted=1.0).summary()
    pulled = replace(found, measured_low=0.1 * found.predicted, measured_high=0.9 * found.predicted)
    assert not pulled.consistent
    assert "differ: the noise is too large" in pulled.summary()


@SLOW
def test_drift_pulls_values_together():
    system = ms.Dynamics(planted_ring(0.003, 3, size=2))
    starts = torch.randn(120, 2, generator=torch.Generator().manual_seed(0)).double()
    memory = ms.find_slow_manifold(system, starts=starts, steps=20, delays=(10,))
    rest = torch.tensor([cos(2 * pi / 3), sin(2 * pi / 3)], dtype=torch.float64)  # a stable one
    memory = replace(memory, group=torch.where((memory.states - rest).norm(dim=1) < 0.3, 0, 1))
    found = ms.measure_diffusion(system, memory, 0.01, relax=10, delays=(300,), trials=200)
    assert found.measured_high < found.predicted


def test_wrong_arguments_of_diffusion_raise(ring):
    system, memory = ring
    for given, noise, message in (
        (replace(memory, reason="the states diverge"), 0.1, "line or ring"),
        (replace(memory, window=60), 0.1, "oscillates"),
        (memory, -0.1, "positive number"),
        (memory, torch.ones(2, 2), "symmetric with shape"),
        (memory, torch.diag(torch.tensor([1.0, 1.0, -1.0])), "negative eigenvalues"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.measure_diffusion(system, given, noise)
