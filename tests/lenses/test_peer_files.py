"""Results that fixed-point-finder saved: read with and without the network, and refused where they are unsafe."""

import json
import os
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import mnemoscope as ms


@cache
def nine_points():
    """Return a network and its fixed points."""
    network = torch.nn.RNN(2, 2, bias=False)
    with torch.no_grad():
        network.weight_hh_l0.copy_(2 * torch.eye(2))  # 9 points: each unit rests at 0 or at one of two other values
    return network, ms.find_fixed_points(network)


def saved(path, **changes):
    """Write a file as fixed-point-finder does: the pickled attributes of its object."""
    network, fp = nine_points()
    content = {
        "xstar": fp.states.float().numpy(),
        "qstar": fp.q.float().numpy(),
        "J_xstar": fp.jacobians.float().numpy(),
        "inputs": np.zeros((len(fp), 2), np.float32),
        "dtype": np.float32,
        "dtype_complex": np.complex64,
        "tol_unique": 1e-3,
        "cond_id": None,
        "n": len(fp),
    } | changes
    path.write_bytes(pickle.dumps(content))
    return network, fp


def test_points_are_read_with_the_jacobians_of_the_file(tmp_path):
    _, fp = saved(tmp_path / "points.fps")
    found = ms.import_fixed_points(tmp_path / "points.fps")
    assert len(found) == len(fp) == 9
    assert found.kind == fp.kind
    torch.testing.assert_close(found.states, fp.states, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.jacobians, fp.jacobians, rtol=0, atol=1e-6)


def test_with_the_network_q_and_jacobians_are_exact_and_the_search_goes_on_from_there(tmp_path):
    network, fp = saved(tmp_path / "points.fps", J_xstar=None)
    found = ms.import_fixed_points(tmp_path / "points.fps", network)
    assert float(found.q.max()) < 1e-12
    torch.testing.assert_close(found.jacobians, ms.Dynamics(network).jacobian(found.states))
    again = ms.find_fixed_points(network, found.states)
    torch.testing.assert_close(again.states, fp.states[(torch.cdist(again.states, fp.states)).argmin(1)])


def test_points_at_several_inputs_are_several_systems(tmp_path):
    given = np.zeros((9, 2), np.float32)
    given[-1] = 0.5
    network, _ = saved(tmp_path / "points.fps", inputs=given)
    with pytest.raises(ValueError, match=r"points at 2 inputs.*1: \[0.5, 0.5\]"):
        ms.import_fixed_points(tmp_path / "points.fps", network)
    last = ms.import_fixed_points(tmp_path / "points.fps", network, condition=1)
    torch.testing.assert_close(last.jacobians, ms.Dynamics(network, [0.5, 0.5]).jacobian(last.states))
    with pytest.raises(ValueError, match="condition is 2"):
        ms.import_fixed_points(tmp_path / "points.fps", condition=2)


def test_files_that_could_run_code_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "points.fps"
    saved(path, cond_id=os.system)
    with pytest.raises(ValueError, match=r"names (posix|nt)\.system"):
        ms.import_fixed_points(path)
    path.write_bytes(b"no pickle")
    with pytest.raises(ValueError, match="not a file that fixed-point-finder saved"):
        ms.import_fixed_points(path)
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match="no array `xstar`"):
        ms.import_fixed_points(path)
    saved(path, J_xstar=None)
    with pytest.raises(ValueError, match="pass the network"):
        ms.import_fixed_points(path)
    saved(path, qstar=np.zeros(1))
    with pytest.raises(ValueError, match="`qstar` is not an array"):
        ms.import_fixed_points(path)
    with pytest.raises(ValueError, match="have 2 numbers, but the state of the network has 4"):
        ms.import_fixed_points(path, torch.nn.RNN(2, 4))


def test_inputs_may_be_missing(tmp_path):
    saved(tmp_path / "points.fps", inputs=None)
    assert len(ms.import_fixed_points(tmp_path / "points.fps")) == 9


def test_the_page_has_the_measured_example():
    root = Path(__file__).parents[2]
    rows = json.loads((root / "benchmarks/results/fixed_point_finder_examples.json").read_text())["rows"]
    table = ["| network | method | seconds | points | q < 1e-12 | q < 1e-25 |", "|---|---|---|---|---|---|"]
    table += [
        f"| {row['network']} | {row['method']} | {row['seconds']:.2f} | {row['points']} | {row['loose']} | "
        f"{row['true']} |"
        for row in rows
    ]
    page = (root / "docs/from-fixed-point-finder.md").read_text()
    assert page.split("<!-- example -->")[1].split("<!-- end -->")[0].strip() == "\n".join(table)
