"""The comparison lens against dsa-metric, whose distances `benchmarks/compare.py` measured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.compare_examples import examples, ours, pairs

from mnemoscope.lenses.comparison.alignment import align_operators
from tests.slow import SLOW

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = ("noise", "linear, rank 5", "linear, rank 15", "planted")
"""Examples that were measured."""


def measured(name):
    """Return the results of a part of the benchmark."""
    return json.loads((FOLDER / f"compare_{name.replace(', ', '_').replace(' ', '_')}.json").read_text())


ROWS = {f"{name}, {row['score']}": (name, row) for name in NAMES for row in measured(name)["rows"]}
"""Distances of both libraries, by example and score."""


@pytest.mark.parametrize("case", ROWS)
def test_distances_agree_with_those_of_dsa_metric(case):
    name, row = ROWS[case]
    systems, settings, _ = examples()[name]
    found = np.array(pairs(ours(systems, settings, row["score"]).distances))
    theirs = np.array(row["theirs"])
    assert (found <= theirs + 1e-5).all()  # never a worse optimum
    if row["score"] == "wasserstein":
        assert np.allclose(found, theirs, atol=1e-3)
    assert (found <= np.array(row["ours"]) + 1e-3).all()  # nor one worse than the recorded one


def test_random_matrices_are_aligned_at_least_as_well_as_by_dsa_metric():
    for row in measured("matrices")["matrices"]:
        if row["kind"] == "random":
            A, B = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(row["seed"])).double()
            assert float(align_operators(A[None], B[None]).cosine.arccos()) <= row["theirs"] + 1e-3


def test_dsa_metric_itself_scores_our_optimum_as_we_do():
    checked = [row for row in measured("matrices")["matrices"] if "their_score_at_our_optimum" in row]
    numbers = {name: len(systems) for name, (systems, _, _) in examples().items()}
    for name, row in ROWS.values():
        places = list(zip(*np.triu_indices(numbers[name], 1), strict=True))
        for check in row.get("checks", ()):
            place = places.index(tuple(check["pair"]))
            checked.append(check | {side: row[side][place] for side in ("ours", "theirs")})
    assert len(checked) == 10
    for check in checked:
        assert check["their_score_at_our_optimum"] == pytest.approx(check["ours"], abs=1e-3)
        assert check["ours"] < check["theirs"] - 1e-3
    planted = ROWS["planted, angular"][1]["checks"]
    assert all(check["their_best_of_restarts"] < check["their_score_at_our_optimum"] + 1e-3 for check in planted)


@SLOW
def test_dsa_metric_still_finds_the_recorded_distances():
    DSA = pytest.importorskip("DSA", reason="dsa-metric is not installed").DSA
    name, row = ROWS["noise, angular"]
    systems, settings, _ = examples()[name]
    torch.manual_seed(0)
    theirs = DSA(systems, score_method=row["score"], iters=1500, lr=5e-3, n_delays=settings["delays"],
                 rank=settings["rank"], lamb=1e-8).fit_score()  # fmt: skip
    assert np.allclose(pairs(theirs), row["theirs"], atol=2e-3)
