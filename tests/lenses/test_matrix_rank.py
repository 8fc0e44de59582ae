"""The performance that remains of a network whose recurrent matrix is truncated."""

from dataclasses import replace

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EchoState, Elman, Model
from mnemoscope.connectivity import Dense
from mnemoscope.lenses.matrix_rank.truncation import RankOneTerms, with_factors


@pytest.fixture
def planted():
    """A network of rank 2 whose answers are its targets."""
    torch.manual_seed(0)
    model = Model(ms.networks.low_rank(2, 12, rank=2), 1)
    xs = torch.randn(15, 6, 2)
    return model, xs, model(xs)[0].detach()


@pytest.mark.parametrize("by", ["weights", "inputs"])
def test_the_rank_of_a_planted_matrix_is_found(planted, by, tmp_path):
    model, xs, targets = planted
    result = ms.measure_rank(model, xs, targets, ranks=range(5), by=by)
    assert result.needed(0.999) == 2
    assert result.full == pytest.approx(0, abs=1e-10)
    assert result.kept[0] == 0
    assert result.control_scores.shape == (5, 3)
    assert result.sizes[:2].sum() == pytest.approx(1)
    result.save(tmp_path / "rank.safetensors")
    again = ms.RankScores.load(tmp_path / "rank.safetensors")
    assert f"Rank {again.needed()} is the smallest that keeps 95%" in again.summary()
    assert "with random terms instead" in again.summary()
    assert len(again.figure().axes) == 2


def test_a_change_of_low_rank_is_found_in_a_matrix_of_full_rank(planted):
    _, xs, _ = planted
    network = torch.nn.RNN(2, 8, batch_first=True)
    initial = network.weight_hh_l0.detach().clone()
    with torch.no_grad():
        network.weight_hh_l0 += torch.outer(torch.randn(8), torch.randn(8))
    xs = xs.transpose(0, 1)
    targets = network(xs)[0].detach()
    result = ms.measure_rank(network, xs, targets, ranks=(0, 1, 8), initial=initial, controls=0, by="inputs")
    assert result.needed() == 1
    assert "change in training" in result.summary()
    assert "of those measured" in result.summary()
    assert "random" not in result.summary()
    assert len(result.figure().axes) == 2
    assert ms.measure_rank(network, xs, targets, ranks=(1, 8), controls=0).needed() == 8


def test_directions_of_the_recurrent_input_are_the_best_of_their_rank():
    W, rates = torch.randn(6, 6, dtype=torch.float64), torch.randn(40, 6, dtype=torch.float64) * torch.arange(6)
    zero = torch.zeros_like(W)
    terms = RankOneTerms.of_inputs(W, zero, rates)
    torch.testing.assert_close(terms.keep(torch.arange(6)), W)

    def error(matrix):
        return (rates @ (W - matrix).mT).square().sum()

    best = error(terms.keep(torch.arange(2)))
    # the error of the best approximation of the recurrent inputs themselves is a lower bound
    torch.testing.assert_close(best, torch.linalg.svdvals(rates @ W.mT)[2:].square().sum())
    assert best < error(RankOneTerms.of_weights(W, zero).keep(torch.arange(2)))


def test_a_score_may_be_any_function(planted):
    model, _, _ = planted
    result = ms.measure_rank(model, score=lambda network: 1.0, ranks=[0, 1], controls=1)
    assert "no rank can be read" in result.summary()
    assert result.needed() is None
    high = ms.measure_rank(model, score=lambda network: network.cell.combined().square().sum(), ranks=[0], controls=0)
    assert "None of the ranks 0 keeps" in high.summary()


def test_truncated_networks_are_scored_again_after_training(planted, tmp_path):
    model, xs, targets = planted
    seen = []

    def retrain(truncated):
        seen.append(truncated)
        learned = [parameter for parameter in truncated.parameters() if parameter.requires_grad]
        optimiser = torch.optim.Adam(learned, 0.01)
        for _ in range(30):
            optimiser.zero_grad()
            (truncated(xs)[0] - targets).square().mean().backward()
            optimiser.step()

    result = ms.measure_rank(model, xs, targets, ranks=(0, 1, 2), controls=0, retrain=retrain)
    assert [int(torch.linalg.matrix_rank(each.cell.combined())) for each in seen] == [0, 1, 2]
    assert result.retrained[1] < result.scores[1]
    assert result.needed(retrained=True) == 2
    assert "After further training of the truncated networks, rank 2 is enough" in result.summary()
    result.save(tmp_path / "rank.safetensors")
    assert torch.equal(ms.RankScores.load(tmp_path / "rank.safetensors").retrained, result.retrained)
    assert "trained again" in [text.get_text() for text in result.figure().axes[0].get_legend().get_texts()]
    worse = replace(result, retrained=torch.full_like(result.scores, result.without))
    assert "no measured rank keeps it" in worse.summary()
    with pytest.raises(ValueError, match="pass retrain"):
        replace(result, retrained=None).needed(retrained=True)


@pytest.mark.parametrize("by", ["weights", "inputs"])
def test_factors_of_the_leading_terms_are_balanced_and_multiply_to_them(by):
    network = torch.nn.RNN(2, 6)
    initial = 0.1 * torch.randn(6, 6, dtype=torch.float64)
    W = network.weight_hh_l0.detach().double()
    terms = RankOneTerms.of_weights(W, initial)
    if by == "inputs":
        terms = RankOneTerms.of_inputs(W, initial, torch.randn(9, 6, dtype=torch.float64))
    left, right = terms.factors(3)
    torch.testing.assert_close(left @ right.mT / 6 + initial, terms.keep(torch.arange(3)))
    torch.testing.assert_close(left.norm(dim=0), right.norm(dim=0))
    matrix = with_factors(network, terms, 3).connectivity
    torch.testing.assert_close(matrix(), terms.keep(torch.arange(3)).float())
    torch.testing.assert_close(matrix.random, initial.float())  # constant: what training started from


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.measure_rank(Elman(1, 3)), "either targets"),
        (lambda: ms.measure_rank(Elman(1, 3), targets=torch.zeros(2, 1, 3)), "pass the inputs too"),
        (lambda: ms.measure_rank(EchoState(1, 3), score=len), "this is EchoState"),
        (lambda: ms.measure_rank(Elman(1, 3), score=len, by="inputs"), "needs inputs"),
        (lambda: ms.measure_rank(Elman(1, 3), score=len, ranks=[4]), "from 0 to 3"),
        (lambda: ms.measure_rank(Elman(1, 3), score=len, initial=torch.zeros(2, 2)), r"\(3, 3\)"),
        (lambda: ms.measure_rank(torch.nn.RNN(1, 2), score=lambda net: 0.0, by="input"), 'by must be "weights"'),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_truncation_leaves_the_network_as_it_was(planted):
    model, xs, targets = planted
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ms.measure_rank(model, xs, targets, ranks=[1], controls=0)
    assert not isinstance(model.cell.connectivity, Dense)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_small_difference_is_named():
    scores = torch.tensor([1.01, 1.0])
    found = ms.RankScores((0, 1), scores, torch.zeros(2, 0), 1.01, 1.0, torch.ones(1), "weights", False, "error")
    assert "This difference is small" in found.summary()
    assert "difference is small" not in replace(found, without=2.0).summary()
