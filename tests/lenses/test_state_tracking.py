"""State tracking: moments against all words, a hand-built representation, a closed form, and what the lens refuses."""

import re
from itertools import product
from math import comb, inf, isnan

import pytest
import torch
from torch import Tensor, nn

import mnemoscope as ms
from mnemoscope.base.groups import Group, named_group
from mnemoscope.cells import GRU, Cell, Elman, Model
from mnemoscope.cells.affine import DeltaProduct
from mnemoscope.lenses.tracking.characters import character_table
from mnemoscope.lenses.tracking.lens import _check_kinds, _period
from mnemoscope.lenses.tracking.mixtures import Predecessors, advance, start_mixtures
from mnemoscope.lenses.tracking.recovery import displacement_left
from mnemoscope.lenses.tracking.result import crossing
from mnemoscope.lenses.tracking.simulation import advance_by_samples, balanced_noise
from mnemoscope.lenses.tracking.words import WordReader
from tests.slow import representatives

PAIR = named_group("S3", "generators")
CHANCES = torch.tensor([0.3, 0.7], dtype=torch.float64)


def small_model(kind: str) -> tuple[Model, Group]:
    torch.manual_seed(0)
    if kind == "cell":
        return Model(DeltaProduct(3, 4, heads=2, factors=2, gated=True), 6), PAIR
    if kind == "convolution":
        return Model(ms.networks.blocks(3, 4, "deltanet", depth=1, heads=2), 2), named_group("Z2")
    if kind == "complex":
        return Model(ms.networks.blocks(3, 2, "lru", depth=1), 2), named_group("Z2")
    return Model(ms.networks.blocks(3, 4, "gla", depth=2, heads=2), 2), named_group("Z2")


def classes_of(reader: WordReader, words: list[tuple[int, ...]]) -> Tensor:
    """Return the class of each word: its product, and the number of its last letters."""
    group, base = reader.group, reader.letters
    products = [group.multiply(group.letters[letter] for letter in word) for word in words]
    last = [sum(x * base**k for k, x in enumerate(word[::-1][: reader.window])) for word in words]
    return torch.tensor([p * reader.windows + w for p, w in zip(products, last, strict=True)])


@pytest.mark.parametrize(("kind", "components"), [("cell", 3), ("convolution", 1), ("complex", 1)])
def test_moments_are_those_of_all_words(kind, components):
    model, group = small_model(kind)
    reader = WordReader(model, group)
    maps = reader.affine_maps()
    assert maps is not None
    mixtures = start_mixtures(reader, CHANCES, components)
    for length in range(reader.window, 5 if reader.window else 6):
        merged = mixtures.merged()
        words = list(product(range(2), repeat=length))
        letters = torch.tensor(words, dtype=torch.long).view(len(words), length).T
        states, weights = reader.run(letters), CHANCES[letters].prod(0)
        for number in range(reader.classes):
            chosen = classes_of(reader, words) == number
            total = weights[chosen].sum()
            torch.testing.assert_close(merged.weights[number, 0], total, rtol=1e-13, atol=1e-15)
            if total > 0:
                share = weights[chosen] / total
                mean = share @ states[chosen]
                apart = states[chosen] - mean
                covariance = apart.T @ (share.unsqueeze(1) * apart)
                torch.testing.assert_close(merged.means[number, 0], mean, rtol=1e-12, atol=1e-14)
                torch.testing.assert_close(merged.covariances[number, 0], covariance, rtol=1e-11, atol=1e-14)
        mixtures = advance(mixtures, maps, Predecessors.of(reader), CHANCES)


def test_sampled_moments_of_an_affine_step_are_exact():
    reader = WordReader(*small_model("cell"))
    maps, before = reader.affine_maps(), Predecessors.of(reader)
    assert maps is not None
    exact = sampled = start_mixtures(reader, CHANCES, 1)
    for step in range(6):
        exact = advance(exact, maps, before, CHANCES)
        sampled = advance_by_samples(reader, sampled, before, CHANCES, balanced_noise(reader.size, step))
    torch.testing.assert_close(sampled.means, exact.means, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(sampled.covariances, exact.covariances, rtol=1e-9, atol=1e-12)


class Permuting(Cell):
    """A state that letters multiply by given matrices, from a first state that the start sets."""

    reads_input = False

    def __init__(self, matrices: Tensor, first: Tensor) -> None:
        super().__init__()
        self.matrices, self.first = nn.Parameter(matrices), nn.Parameter(first)
        self.input_size = len(matrices) + 1

    def initial_state(self, batch: int) -> Tensor:
        return self.first.new_zeros(batch, len(self.first))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        A = torch.einsum("bl,lij->bij", x[:, :-1], self.matrices)
        return (A @ state.unsqueeze(-1)).squeeze(-1) + x[:, -1:] * self.first


def regular_representation(group: Group) -> Model:
    matrices = torch.zeros(len(group.letters), group.order, group.order)
    for row, letter in enumerate(group.letters):
        for element in range(group.order):
            matrices[row, group.table[letter][element], element] = 1
    model = Model(Permuting(matrices, torch.eye(group.order)[0]), group.order)
    with torch.no_grad():
        model.readout.weight.copy_(torch.eye(group.order))
        model.readout.bias.zero_()
    return model


@representatives("S3")
@pytest.mark.parametrize("name", ["Z6", "S3"])
def test_an_exact_representation_never_fails(name):
    group = named_group(name)
    result = ms.state_tracking(regular_representation(group), group, length=12, samples=200)
    assert result.exact
    assert result.half_time == result.ninety_time == inf
    assert result.modulus_error < 1e-6
    assert float(result.relations.max()) < 1e-9
    # every irreducible representation but the trivial one, as often as its dimension
    assert result.multiplicities.tolist() == pytest.approx([0, *result.dimensions[1:]], abs=1e-6)
    assert result.decay == pytest.approx(1, abs=1e-6)
    assert result.displacement.tolist() == pytest.approx([1.0] * 25)
    assert "no length makes it fail" in result.summary()


def decaying_parity(rate: float, bias: float) -> Model:
    """Return a network with the state +-rate^k after k letters that flip, which answers by the sign of state + bias."""
    model = Model(Permuting(torch.tensor([[[1.0]], [[-rate]]]), torch.ones(1)), 2)
    with torch.no_grad():
        model.readout.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        model.readout.bias.copy_(torch.tensor([bias, -bias]))
    return model


def test_the_predicted_times_of_a_decaying_parity_agree_with_its_closed_form():
    rate, bias = 0.8, 0.02  # an odd word is answered while rate^k > bias, an even one always

    def accuracy(length: int) -> float:
        return sum(comb(length, k) for k in range(length + 1) if k % 2 == 0 or rate**k > bias) / 2**length

    lengths = torch.arange(1.0, 60.0)
    exact = torch.tensor([accuracy(int(length)) for length in lengths])
    group, model = named_group("Z2"), decaying_parity(rate, bias)
    result = ms.state_tracking(model, group, length=60, components=32, samples=2000)
    gaussian = ms.state_tracking(model, group, length=60, components=1, samples=2000)
    for level in (0.98, 0.9, 0.76):
        time = crossing(lengths, exact, level)
        assert result.time_at(level) == pytest.approx(time, rel=0.05)
    assert gaussian.time_at(0.98) < 0.8 * result.time_at(0.98)  # the tail of a single Gaussian is too heavy
    assert result.eigenvalues.real.flatten().tolist() == pytest.approx([1, -rate])
    assert result.decay == pytest.approx((1 + rate) / 2)
    assert result.representation() == "dimension 1 (faithful)"


def test_words_are_drawn_to_compare():
    result = ms.state_tracking(decaying_parity(0.9, 0.1), named_group("Z2"), length=45, samples=300, words=300)
    assert len(result.measured) == int(result.lengths[-1])
    assert result.measured_time(0.9) == pytest.approx(result.ninety_time, rel=0.15)
    assert "Measured on 300 words" in result.summary()
    low, high = result.measured_time_interval(0.9)
    assert low < result.measured_time(0.9) < high
    assert f"(95% interval {result.measured_time_interval(0.75)[0]:.0f} to " in result.summary()


def test_the_interval_of_a_displacement_holds_its_share_and_is_a_point_at_the_start():
    torch.manual_seed(0)
    reader = WordReader(Model(GRU(3, 2), 2), named_group("Z2"))
    share, (low, high) = displacement_left(reader, CHANCES)
    assert (low <= share + 1e-12).all()
    assert (share <= high + 1e-12).all()
    assert (high > low)[1:].all()
    assert float(low[0]) == float(share[0]) == float(high[0]) == 1


def test_a_step_that_is_not_affine_takes_words_or_a_closure():
    model, group = small_model("two layers")
    drawn = ms.state_tracking(model, group, length=5, words=50)
    assert drawn.method == "words"
    assert isnan(drawn.decay)
    assert drawn.eigenvalues.numel() == 0
    closed = ms.state_tracking(model, group, length=4, samples=200, method="closure")
    assert closed.method == "closure"
    assert closed.lengths.tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="not affine in the state"):
        ms.state_tracking(model, group, method="moments")


def test_the_accuracy_of_words_within_the_window_is_that_of_all_words():
    model, group = small_model("convolution")
    result = ms.state_tracking(model, group, length=4, samples=200, probabilities=[0.3, 0.7])
    for length in (1, 2, 3):
        words = torch.tensor(list(product(range(2), repeat=length))).T
        inputs = torch.eye(3)[torch.cat([torch.full((1, words.shape[1]), 2), words])]
        right = model(inputs)[0][-1].argmax(-1) == words.sum(0) % 2
        expected = float(CHANCES[words].prod(0) @ right.double())
        assert float(result.accuracy[length - 1]) == pytest.approx(expected)


class Latch(Cell):
    """A tanh network that corrects errors: the sign of its state flips with the second letter."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(3.0))

    def initial_state(self, batch: int) -> Tensor:
        return self.gain.new_zeros(batch, 1)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.gain * ((x[:, :1] - x[:, 1:2]) * state + x[:, 2:]))


def test_attractors_correct_errors_where_affine_maps_do_not():
    model = Model(Latch(), 2)
    with torch.no_grad():
        model.readout.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        model.readout.bias.zero_()
    latch = ms.state_tracking(model, named_group("Z2"), length=40, words=50)
    affine = ms.state_tracking(decaying_parity(0.9, 0.1), named_group("Z2"), length=5, samples=100)
    assert float(latch.displacement[-1]) < 1e-6
    assert "it corrects such errors" in latch.summary()
    assert float(affine.displacement[-1]) > 0.9
    assert "it does not correct errors" in affine.summary()


@pytest.mark.parametrize(
    ("name", "letters", "period"), [("Z2", "elements", 1), ("S3", "generators", 2), ("Z6", "generators", 6)]
)
def test_the_period_of_words(name, letters, period):
    assert _period(named_group(name, letters)) == period


@pytest.mark.parametrize("name", ["Z6", "S3", "A4", "A5"])
def test_characters_are_orthonormal(name):
    group = named_group(name)
    table = character_table(group)
    assert int(table.dimensions.square().sum()) == group.order
    products = table.characters @ table.characters.conj().T / group.order
    torch.testing.assert_close(products, torch.eye(len(products)).to(products), rtol=0, atol=1e-9)
    assert table.kernel(0) == group.order


def test_figures_are_drawn(tmp_path):
    affine = ms.state_tracking(decaying_parity(0.9, 0.1), named_group("Z2"), length=10, samples=200, words=20)
    titles = [axes.get_title() for axes in affine.figure().axes]
    assert titles == ["Accuracy", "Eigenvalues of the letters", "Separation and spread of the states"]
    other = ms.state_tracking(Model(Elman(3, 2), 2), named_group("Z2"), length=6, words=20)
    assert len(other.figure().axes) == 2
    other.save(tmp_path / "tracking.safetensors")
    assert ms.StateTracking.load(tmp_path / "tracking.safetensors").summary() == other.summary()


@pytest.mark.parametrize(
    ("group", "options", "message"),
    [
        (named_group("S3"), {}, "takes 3 inputs, but a word problem with 6 letters has 7"),
        (PAIR, {"tokens": torch.zeros(2, 3)}, "one for the start of a word, so 3, but has 2"),
        (PAIR, {"probabilities": [0.5, 0.6]}, "sum to 1"),
        (PAIR, {"length": 0}, "length must be"),
        (named_group("Z3"), {"tokens": torch.eye(3)[[0, 1, 1, 2]]}, "has 6 classes, but the group has 3 elements"),
    ],
)
def test_wrong_arguments_are_refused(group, options, message):
    with pytest.raises(ValueError, match=message):
        ms.state_tracking(small_model("cell")[0], group, **options)


def test_a_cell_the_name_of_a_group_and_other_methods_are_refused():
    model = small_model("cell")[0]
    with pytest.raises(TypeError, match="pass Model"):
        _check_kinds(model.cell, PAIR, "auto")
    with pytest.raises(TypeError, match="named_group"):
        _check_kinds(model, "Z2", "auto")
    with pytest.raises(ValueError, match="one of auto, moments, closure, words, but is 'moment'"):
        _check_kinds(model, PAIR, "moment")


def test_letters_are_numbers_for_an_embedding():
    model, _ = small_model("cell")
    embedding = nn.Embedding(3, 3, _weight=torch.eye(3))
    embedded = Model(model.cell, 6, encode=embedding)
    assert torch.equal(WordReader(embedded, PAIR).tokens, WordReader(model, PAIR).tokens)
    with pytest.raises(ValueError, match="embeds 3 tokens, but a word problem with 6 letters has 7"):
        WordReader(embedded, named_group("S3"))


def test_forgetting_is_not_called_correction():
    torch.manual_seed(0)
    forgetful = ms.state_tracking(Model(GRU(3, 2), 2), named_group("Z2"), length=30, words=50)
    assert float(forgetful.displacement[-1]) < 0.1
    assert "whether it corrects or forgets them is not known" in forgetful.summary()
    assert forgetful.half_time == 0
    assert "the network does not follow the products of this group" in forgetful.summary()
    assert forgetful.method == "words"
    assert re.search(r"is 0\.\d+ \(95% interval 0\.\d+ to 0\.\d+\) at best", forgetful.summary())
    assert "half way to chance (0.5) at" not in forgetful.summary()


def test_a_length_that_was_not_reached_is_not_a_number_but_a_bound():
    result = ms.state_tracking(decaying_parity(0.9, 0.1), named_group("Z2"), length=20, samples=100, words=40)
    assert (
        "Measured on 40 words: half way at more than 20 (95% interval more than 20 to more than 20)" in result.summary()
    )


def test_too_many_windows_are_refused():
    group = named_group("A4")
    model = Model(ms.networks.blocks(13, 4, "deltanet", depth=1, heads=2), 12)
    with pytest.raises(ValueError, match="1728 windows must be distinguished"):
        ms.state_tracking(model, group, method="moments")
    assert ms.state_tracking(model, group, length=2, words=10).method == "words"


def test_large_states_are_refused():
    model = Model(DeltaProduct(3, 40, heads=1, factors=1), 6)
    with pytest.raises(ValueError, match="a state of 1600 numbers"):
        ms.state_tracking(model, PAIR, method="closure")
    assert ms.state_tracking(model, PAIR, length=2, words=10).method == "words"
