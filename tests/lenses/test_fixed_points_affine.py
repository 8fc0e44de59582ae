"""Fixed points of affine cells at a constant input: the solutions of a linear equation."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells.affine.parts import AffineState
from mnemoscope.lenses.fixed_points.affine import affine_solution
from tests.cells.test_affine_cells import CELLS
from tests.planted_affine import delta_tokens
from tests.slow import representatives

HELD = [0.5, -1.0, 0.3]


@representatives("lru", "kda")
@pytest.mark.parametrize("name", ["s5", "lru", "gla", "mamba2", "gated-deltanet", "kda", "rwkv7"])
def test_a_forgetting_cell_has_one_fixed_point(name):
    torch.manual_seed(0)
    dynamics = ms.Dynamics(CELLS[name](), HELD)
    fp = ms.find_fixed_points(dynamics)
    assert (len(fp), fp.dimension, fp.kind) == (1, 0, ["stable"])
    settled = torch.zeros_like(dynamics.origin)
    J, shift = dynamics.jacobian(settled)[0], dynamics(settled)[0]
    exact = torch.linalg.solve(torch.eye(len(J), dtype=J.dtype) - J, shift)
    torch.testing.assert_close(fp.states[0], exact, rtol=1e-9, atol=1e-9)
    assert "there is no other fixed point" in fp.summary()
    torch.testing.assert_close(ms.find_fixed_points(dynamics, settled).states, fp.states)  # a search finds it, too


def test_a_delta_rule_has_a_space_of_fixed_points():
    """All S with k^T S = v^T: one condition for each of 2 values, so that (3 - 1) 2 dimensions are free."""
    cell = delta_tokens([[0.6, 0.8, 0.0]], [0.5], values=2)
    fp = ms.find_fixed_points(ms.Dynamics(cell, [0.0]))
    assert (len(fp), fp.dimension, fp.kind) == (1, 4, ["marginal"])
    torch.testing.assert_close(fp.states[0].reshape(3, 2), torch.tensor([[0.6] * 2, [0.8] * 2, [0.0] * 2]).double())
    assert "a linear space of 4 dimensions" in fp.summary()


def test_a_sum_has_no_fixed_point(tmp_path):
    """Linear attention adds the same write at every step."""
    cell = delta_tokens([[1.0, 0.0]], [1.0])
    cell.table = cell.table._replace(erase=None)
    fp = ms.find_fixed_points(ms.Dynamics(cell, [0.0]))
    assert (len(fp), fp.dimension) == (0, -1)
    assert "has none: A has the eigenvalue 1" in fp.summary()
    fp.save(tmp_path / "points.safetensors")
    assert ms.FixedPoints.load(tmp_path / "points.safetensors").summary() == fp.summary()


def test_scaled_states_and_other_cells_have_no_such_solution():
    assert affine_solution(ms.Dynamics(CELLS["mlstm"](), HELD)) is None
    assert affine_solution(ms.Dynamics(ms.cells.GRU(3, 2))) is None


def test_the_solution_is_a_state_of_the_cell():
    cell = delta_tokens([[1.0]], [0.5], [-0.1])
    fp = ms.find_fixed_points(ms.Dynamics(cell, [0.0]))
    state = AffineState(fp.states.reshape(1, 1, 1, 1))
    torch.testing.assert_close(cell(torch.zeros(1, 1).double(), state).S, state.S)
