"""Studies of Fisher memory, checked with many digits, by identities and on small networks."""

from math import log
from pathlib import Path

import pytest
import torch
from mpmath import mp, mpf

import mnemoscope as ms
from mnemoscope.lenses.fisher.stein import UnstableError
from mnemoscope.replication import Finished
from mnemoscope.replication.linear_networks import (
    feed_forward,
    first_unit,
    random_chain,
    random_general,
    random_normal,
    random_source,
)
from mnemoscope.studies.kerg2022 import fisher_curves, fisher_delay_line, fisher_table
from mnemoscope.studies.renanse2021 import matrix_capacity, matrix_theorems, queue_capacity
from tests.slow import SLOW, representatives

MODULES = (fisher_table, fisher_curves, fisher_delay_line, matrix_capacity, queue_capacity)
STUDIES = [module.STUDY for module in MODULES]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def finished(study, preset, only=None):
    chosen = study.presets[preset]
    trials = study.trials(chosen.settings, chosen.seeds)
    trials = [trial for trial in trials if only is None or only(trial.settings)]
    return [Finished(trial, study.run(trial, Path(), progress=False)) for trial in trials]


def rows(study, results):
    return {row.quantity: row for row in study.summarise(results)}


def stein(A, noise):
    """Solve `P = A P A^T + noise` for a lower triangular A, entry by entry."""
    n = len(A)
    P = [[mpf(0)] * n for _ in range(n)]
    for i in range(n):
        row = [mpf(0)] * n  # row i of A P
        for j in range(i + 1):
            row[j] = mp.fsum(A[i][m] * P[m][j] for m in range(i))
            rest = mp.fsum(row[m] * A[j][m] for m in range(j + 1))
            P[i][j] = P[j][i] = (noise(i, j) + rest) / (1 - A[i][i] * A[j][j])
            row[j] += A[i][i] * P[i][j]
    return P


def total_in_many_digits(alpha, beta, d, n):
    A = [[{0: d, 1: alpha}.get(i - j, beta if i > j else mpf(0)) for j in range(n)] for i in range(n)]
    C, P = mp.matrix(stein(A, lambda i, j: mpf(i == j))), mp.matrix(stein(A, lambda i, j: mpf(i == j == 0)))
    X = mp.inverse(C) * P
    return sum(X[i, i] for i in range(n))


@representatives("network0")
@pytest.mark.parametrize("network", [("0.95", "0", "0.2"), ("1.05", "0.005", "0.2")])
def test_totals_agree_with_120_digits(network):
    """For N = 100 the same function gives the corrected values of Table 5, but takes minutes."""
    with mp.workdps(120):
        exact = float(total_in_many_digits(*map(mpf, network), 24))
    A = feed_forward(*map(float, network), 24)
    assert abs(float(ms.fisher_memory(A, first_unit(24)).total) / exact - 1) < 1e-11


def test_the_table_is_as_printed_without_a_diagonal_and_as_corrected_with_one():
    table = rows(fisher_table.STUDY, finished(fisher_table.STUDY, "cpu"))
    verdicts = {name: row.verdict for name, row in table.items()}
    name = {network: fisher_table._subject(network).name for network in fisher_table.PRINTED}
    assert [verdicts[f"{name[network]}: printed"] for network in fisher_table.PRINTED] == (
        ["matches"] * 6 + ["differs"] * 3 + ["matches"] + ["differs"] * 2  # 12.1 is correctly rounded
    )
    assert all(verdicts[f"{name[network]}: corrected"] == "matches" for network in fisher_table.CORRECTED)
    assert table["alpha 1, beta 0.005, d 0: printed"].published == "5.30"


def test_a_plain_inverse_fails_only_for_ill_conditioned_networks():
    w = first_unit(100)
    for beta, d, good in ((0.0, 0.0, True), (0.005, 0.2, False)):
        A = feed_forward(1.05, beta, d, 100)
        off = (fisher_table.plain_totals(A, w, generator()) / ms.fisher_memory(A, w).total - 1).abs()
        assert bool((off < 1e-6).all()) == good
        assert bool((off > 0.01).any()) != good


def test_all_but_one_statement_about_the_curves_match():
    table = rows(fisher_curves.STUDY, finished(fisher_curves.STUDY, "cpu"))
    assert [row.verdict for row in table.values()] == ["differs", *["matches"] * 7]


def test_gram_schmidt_agrees_with_the_textbook_method():
    """The reference orthogonalises each column against the later ones, starting with the last non-zero column."""
    theta = random_chain(1.3, 0.5, 7, generator())
    A = fisher_delay_line.gram_schmidt(theta)
    D = random_chain(1.3, 0.0, 7, generator())
    assert torch.allclose(D @ A, theta)
    columns = theta.clone()
    for j in range(4, -1, -1):
        for later in range(j + 1, 6):
            other = columns[:, later]
            columns[:, j] -= (other @ columns[:, j]) / (other @ other) * other
    assert torch.allclose(columns, D)


def test_the_identity_that_repairs_the_proof():
    """(D A)^k is D^k times k parts of A, none of which has a larger singular value than A; it is not D^k A."""
    theta = random_chain(0.9, 0.7, 8, generator())
    D, A = random_chain(0.9, 0.0, 8, generator()), fisher_delay_line.gram_schmidt(theta)
    product = torch.eye(8, dtype=torch.float64)
    power = torch.linalg.matrix_power
    for k in range(1, 8):
        part = torch.zeros_like(A)
        part[: 8 - k + 1, : 8 - k + 1] = A[k - 1 :, k - 1 :]  # moved up by k - 1
        assert torch.linalg.matrix_norm(part, 2) <= torch.linalg.matrix_norm(A, 2) * (1 + 1e-12)
        product = part @ product
        assert torch.allclose(power(theta, k), power(D, k) @ product, atol=1e-12)
    assert not torch.allclose(power(theta, 2), power(D, 2) @ A)


@representatives("0.05")
@pytest.mark.parametrize("strength", [0.05, 0.5, 2.0])
def test_triangular_matrices_respect_the_bounds(strength):
    for seed in range(20):
        for a in (0.6, 1.0, 1.7):
            check = fisher_delay_line.check_chain(random_chain(a, strength, 12, generator(seed)), a)
            assert check["proposition"] >= 0
            assert check["sharper"] >= 0
            assert check["covariance"] <= 0
            assert check["loosest_sharper"] <= check["loosest"]
            assert check["first_step"] > 1e-6


def test_the_exponent_2_has_counter_examples():
    found = [
        fisher_delay_line.check_chain(random_chain(1.0, 1.0, 20, generator(seed)), 1.0)["squared"] for seed in range(5)
    ]
    assert min(found) < -0.1


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_random_networks_have_their_stated_properties(size):
    N, G, W = (
        draw(size, 0.7, generator(3)) for draw in (random_normal, random_general, lambda n, _, g: random_source(n, g))
    )
    assert torch.allclose(N @ N.mT, N.mT @ N, atol=1e-14)
    assert torch.linalg.matrix_norm(N, 2) < 0.7
    assert abs(torch.linalg.eigvals(G).abs().max() - 0.7) < 1e-12
    assert abs(W.norm() - 1) < 1e-14


SIZES = {"normal": (3, 4, 5, 6, 15), "general": (3,)}


def test_verdicts_on_matrix_networks():
    study = matrix_capacity.STUDY
    table = rows(study, finished(study, "cpu", only=lambda settings: settings["size"] in SIZES[settings["kind"]]))
    verdicts = [table[claim.name].verdict for claim in study.claims]
    assert verdicts[:6] == ["matches", "differs", "matches", "matches", "matches", "differs"]
    assert "at 0 lags" in table["normal: published formulas"].remark
    # uniform moduli of products are smaller; small networks are skewed; large ones average over many modes
    assert verdicts[6:] == ["matches", "matches", "not compared", "matches", "matches"]
    assert "mean for N <= 6 and N >= 15" in table[matrix_capacity.NO_EFFECT.name].remark
    small = rows(study, finished(study, "cpu", only=lambda settings: settings["size"] == 3))
    assert matrix_capacity.SMALLER_VARIANCE.name not in small


def test_verdicts_on_theorems_about_matrix_networks():
    study = matrix_theorems.STUDY
    table = rows(study, finished(study, "smoke"))
    verdicts = [table[claim.name].verdict for claim in study.claims]
    divergences, memory = ["matches", "differs", "matches", "matches"], ["differs", "differs", "differs", "matches"]
    assert verdicts == [*divergences, *memory, "matches", "differs", "matches"]


def test_the_printed_divergence_of_scalars_is_that_of_normal_distributions():
    first, second = ([torch.tensor([[value]]).double() for value in values] for values in ((1, 2, 3), (4, 5, 6)))
    variances = 2 * 3, 5 * 6
    expected = (log(variances[1] / variances[0]) - 1 + variances[0] / variances[1] + 9 / variances[1]) / 2
    for exchanged in (True, False):
        assert float(matrix_theorems.lemma_1(first, second, exchanged=exchanged)) == pytest.approx(expected, rel=1e-12)


@SLOW
def test_verdicts_on_queues():
    study = queue_capacity.STUDY
    table = rows(study, finished(study, "cpu", only=lambda settings: settings["size"] == 3))
    # one size has no rank correlation with the size
    verdicts = [table[claim.name].verdict for claim in study.claims if "rank correlation" not in claim.name]
    assert verdicts == ["differs", "differs", "matches", "differs", "differs", *["matches"] * 5]
    assert "3 of 3" in table["weight 1: spectral radius"].remark


def test_a_queue_with_one_slot_of_weight_1_is_unstable():
    for seed in range(10):
        for draw in (random_normal, random_general):
            U, V = draw(3, 0.5, generator(seed)), draw(3, 0.5, generator(seed + 50))
            system = ms.MatrixSystem(U, V, random_source(3, generator(seed)), alpha=(1.0,))
            assert system.map().radius() >= 1
            with pytest.raises(UnstableError):
                ms.fisher_memory(system)


@representatives("0", "1")
@pytest.mark.parametrize("passes", [0, 1, 3, 9])
def test_the_published_sum_stays_below_one_for_normal_networks(passes):
    for seed in range(5):
        U, V = random_normal(4, 0.8, generator(seed)), random_normal(4, 0.8, generator(seed + 50))
        system = ms.MatrixSystem(U, V, random_source(4, generator(seed)), alpha=(1.0,))
        assert ms.fisher_memory(system, method="published", terms=passes).total < 1


def test_the_signal_passed_through_a_queue_is_its_sum():
    U, V = random_general(3, 0.6, generator()), random_general(4, 0.6, generator(1))
    W = torch.randn(3, 4, generator=generator(2), dtype=torch.float64)
    power = torch.linalg.matrix_power
    everything = once = W
    for _ in range(2):
        once = sum(power(U, i).mT @ once @ power(V, i) for i in range(200))
        everything = everything + once
    assert torch.allclose(queue_capacity.sum_of_passes(ms.MatrixSystem(U, V, W), 2), everything, rtol=1e-12)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_other_conditions_are_not_compared_and_figures_are_drawn(study):
    results = finished(study, "smoke")
    assert study.figure(results).axes
    table = list(rows(study, results).values())
    if study in (fisher_table.STUDY, fisher_curves.STUDY):
        assert {row.verdict for row in table} == {"not compared"}
        assert all("other conditions" in row.remark for row in table)


def test_the_lens_is_registered():
    assert ms.registry.lenses.load("fisher") is ms.fisher_memory
