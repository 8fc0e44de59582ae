"""The studies of memory and of gradients along paths, and their parts."""

import pytest
import torch
from tools import attention_tables

from mnemoscope.lenses.attention import chi, linear_norms, polynomial, sparse_uniform
from mnemoscope.networks import memrnn, relrnn
from mnemoscope.replication import Finished
from mnemoscope.studies.kerg2022 import attention_memory, attention_theory, denoise
from mnemoscope.studies.kerg2022.attention_memory import kept_for_gradient
from mnemoscope.studies.kerg2022.attention_theory import (
    attended_states,
    path_error,
    random_eigenvalues,
    sparse_norms,
    uniform_norms,
)
from tests.studies.test_attention_studies import finished


def normal_matrix(eigenvalues):
    """Return a real normal matrix of rotations by pairs with these eigenvalues, conjugates in the second half."""
    blocks = [torch.tensor([[x.real, -x.imag], [x.imag, x.real]]) for x in eigenvalues[: len(eigenvalues) // 2]]
    basis = torch.linalg.qr(torch.randn(len(eigenvalues), len(eigenvalues), dtype=torch.float64)).Q
    return basis @ torch.block_diag(*blocks).double() @ basis.T


@pytest.mark.parametrize("negative", [False, True])
def test_norms_of_uniform_attention_are_those_of_the_polynomial(negative):
    eigenvalues = random_eigenvalues(4, torch.Generator().manual_seed(0), negative=negative)
    assert (eigenvalues.abs() < 1).all()
    assert not negative or (eigenvalues.real < 0).all()
    V = normal_matrix(eigenvalues)
    norms = uniform_norms(eigenvalues, 9)
    for k in (0, 1, 8):
        assert float(norms[k]) == pytest.approx(float(polynomial(V, chi(1, k)).norm()))


def test_norms_of_sparse_attention_are_those_of_a_backward_pass():
    eigenvalues = random_eigenvalues(4, torch.Generator().manual_seed(1), negative=False)
    weights = sparse_uniform(attended_states(15, 3, 2))
    norms = sparse_norms(eigenvalues, weights)
    for T in (1, 7, 15):
        expected = linear_norms(normal_matrix(eigenvalues), weights[:T, :T])[0]
        assert float(norms[T - 1]) == pytest.approx(float(expected))


def test_late_steps_attend_to_the_newest_states_and_to_one_old_one():
    attended = attended_states(12, 3, 2)
    assert attended.sum(1).tolist() == [1, 2, 3, 3, 3, 2, *[3] * 6]
    assert attended[10].nonzero().flatten().tolist() == [4, 9, 10]


def test_the_sum_over_paths_is_the_derivative():
    assert path_error(3, 5, torch.Generator().manual_seed(0)) < 1e-13


def test_full_attention_keeps_more_per_step_as_sequences_grow():
    used = {}
    for name, cell in {"memrnn": memrnn(3, 4), "relrnn": relrnn(3, 4, 2, 2)}.items():
        used[name] = [kept_for_gradient(cell, torch.randn(length, 1, 3), "loop") for length in (30, 60, 90)]
    increase = {name: (more[2] - more[1], more[1] - more[0]) for name, more in used.items()}
    assert increase["memrnn"][0] > 1.3 * increase["memrnn"][1]
    assert increase["relrnn"][0] == increase["relrnn"][1]


def test_memory_is_compared_at_the_published_lengths():
    study = attention_memory.STUDY
    trials = study.trials(study.presets["cpu"].settings, (0,))
    power = {name: 1 if name.startswith("rel") or name in ("rnn", "lstm") else 2 for name in attention_memory.GROWTH}
    results = [
        Finished(
            trial,
            {key: [[T, 500 * T ** power[trial.name]] for T in attention_memory.LENGTHS] for key in ("loop", "fused")},
        )
        for trial in trials
    ]
    rows = [row for row in study.summarise(results) if row.claim is not None]
    assert len(rows) == len(study.claims)
    assert {row.verdict for row in rows} == {"matches"}
    linear = [
        Finished(each.trial, {key: [[T, T] for T in attention_memory.LENGTHS] for key in ("loop", "fused")})
        for each in results
    ]
    verdicts = {row.quantity: row.verdict for row in study.summarise(linear)}
    assert verdicts["memrnn: exponent of memory in T"] == "differs"
    assert verdicts["rnn: increase from T = 400 to 800, as a share of MemRNN's"] == "differs"
    assert [row.quantity for row in study.summarise(results[:1])] == [
        "rnn: exponent of memory in T",
        "rnn: exponent of memory in T, as one operator",
    ]


def test_the_bound_of_uniform_attention_fails_for_negative_eigenvalues():
    study = attention_theory.STUDY
    cases = {trial.name: trial for trial in study.trials(study.presets["smoke"].settings, (0,))}
    trial = cases["uniform attention, negative eigenvalues"]
    result = study.compute(torch.Generator().manual_seed(0), **{**trial.settings, "length": 2000})
    row = study.summarise([Finished(trial, result)])[0]
    assert row.verdict == "differs"
    assert "lambda / (1 - lambda)" in row.judgement.reason


def test_as_many_sequences_as_published_in_larger_batches_are_compared():
    options = {"preset": "paper", "accuracy": 0.25, "steps": 15_625}
    trials = [finished(denoise.STUDY, "exprnn, delay 300", seed=seed, **options) for seed in range(3)]
    assert trials[0].trial.settings["batch_size"] * 15_625 == 200_000 * 10
    assert denoise.STUDY.summarise(trials)[0].verdict == "matches"
    shorter = finished(denoise.STUDY, "exprnn, delay 300", preset="paper", accuracy=0.25, steps=15_624)
    assert denoise.STUDY.summarise([shorter])[0].verdict == "not compared"


def test_the_tables_of_the_page_are_those_of_the_results():
    page = attention_tables.PAGE.read_text()
    assert attention_tables.rewritten(page) == page, "run python -m tools.attention_tables"
