"""The comparison lens against dsa-metric, whose distances `benchmarks/compare.py` measured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.compare_examples import examples, ours, pairs

from mnemoscope.lenses.comparison.alignment import align_operators
from tests.slow import SLOW

MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "compare_agreement.json").read_text())
"""Distances of dsa-metric, and the command that measured them."""
NAMES = {"noise (their tests)": "noise", "linear (their tutorial)": "linear, rank 5", "planted": "planted"}
"""Example of each name in these results."""
PLANTED = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "compare_planted.json").read_text())


@pytest.mark.parametrize("row", MEASURED["distances"], ids=lambda row: f"{row['data']}, {row['score']}")
def test_distances_agree_with_those_of_dsa_metric(row):
    systems, settings, _ = examples()[NAMES[row["data"]]]
    found = np.array(pairs(ours(systems, settings, row["score"]).distances))
    theirs = np.array(row["theirs"])
    assert (found <= theirs + 1e-5).all()  # never a worse optimum
    if row["score"] == "wasserstein":
        assert np.allclose(found, theirs, atol=1e-3)
    assert (found <= np.array(row["ours"]) + 1e-3).all()  # nor one worse than the recorded one


def test_random_matrices_are_aligned_at_least_as_well_as_by_dsa_metric():
    for row in MEASURED["matrices"]:
        A, B = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(row["seed"])).double()
        assert float(align_operators(A[None], B[None]).cosine.arccos()) <= row["theirs"] + 1e-3


def test_dsa_metric_itself_scores_our_optimum_as_we_do_and_reaches_it_from_further_starts():
    angles = PLANTED["rows"][0]
    assert len(angles["checks"]) == 2
    for check in angles["checks"]:
        place = list(zip(*np.triu_indices(4, 1), strict=True)).index(tuple(check["pair"]))
        assert check["their_score_at_our_optimum"] == pytest.approx(angles["ours"][place], abs=1e-3)
        assert check["their_best_of_restarts"] == pytest.approx(angles["ours"][place], abs=1e-3)
        assert angles["ours"][place] < angles["theirs"][place] - 1e-3


@SLOW
def test_dsa_metric_still_finds_the_recorded_distances():
    DSA = pytest.importorskip("DSA", reason="dsa-metric is not installed").DSA
    row = MEASURED["distances"][0]
    systems, settings, _ = examples()[NAMES[row["data"]]]
    torch.manual_seed(0)
    theirs = DSA(systems, score_method=row["score"], iters=1500, lr=5e-3, n_delays=settings["delays"],
                 rank=settings["rank"], lamb=1e-8).fit_score()  # fmt: skip
    assert np.allclose(pairs(theirs), row["theirs"], atol=2e-3)
