"""Recall predicted from interference."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.cells import Model, affine_layers
from mnemoscope.cells.affine import AffineCell
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.lenses.interference import asked_for, lens
from mnemoscope.lenses.interference.asked_for import values_written
from mnemoscope.lenses.interference.context import turned_answers
from mnemoscope.lenses.interference.exchange import Recalling, carried_writes
from mnemoscope.lenses.interference.moments import value_moments
from mnemoscope.lenses.interference.powers import query_powers
from mnemoscope.lenses.interference.ratio import accuracy_at
from mnemoscope.lenses.interference.trials import checked_trials
from mnemoscope.tasks import KeyValueRecall
from tests.cells.test_affine_cells import decaying_fast

TASK = KeyValueRecall(keys=10, values=6, most=10, queries=3)


def trials(pairs=5, sequences=12, task=TASK, dtype=torch.float64):
    task = task.at(pairs)
    batch = task.batch(sequences, seed=1, number=0)
    return ms.RecallTrials(batch.inputs.to(dtype), batch.targets, task.sources(batch))


class PlainAttention(AffineCell):
    """Linear attention with given codes of the keys; the values are one-hot."""

    def __init__(self, codes, values):
        super().__init__(len(codes) + values, values, heads=1, keys=codes.shape[1])
        self.project = nn.Identity()
        self.codes = nn.Parameter(codes)

    def parts(self, features):
        shown, value = features.split([len(self.codes), self.values], dim=-1)
        key = (shown @ self.codes).unsqueeze(-2)
        return Parts(key, key, value.unsqueeze(-2), torch.zeros_like(key[..., :1]))


def attention(codes, task):
    """Return a network that answers with the value it reads most of."""
    model = Model(PlainAttention(codes, task.values), task.values).double()
    model.readout.weight.data = torch.eye(task.values, dtype=torch.float64)
    model.readout.bias.data.zero_()
    return model


def test_orthogonal_keys_do_not_interfere():
    recall = ms.recall_interference(attention(torch.eye(10), TASK), {5: trials()}, draws=2)
    for accuracy in (recall.measured, recall.predicted, recall.gaussian, recall.closed_form):
        assert (accuracy == 1).all()
    assert recall.ratios.isinf().all()
    assert recall.same_sign.isnan().all()
    assert (recall.interference[:5] == 0).all()
    assert (recall.signal[:5] > 0).all()
    assert "the power of the value asked for is inf times" in recall.summary()


def test_the_prediction_agrees_with_an_accuracy_that_interference_limits():
    task = KeyValueRecall(keys=40, values=16, queries=8)
    generator = torch.Generator().manual_seed(0)
    model = attention(torch.randn(40, 6, generator=generator) / 6**0.5, task)
    recall = ms.recall_interference(model, {pairs: trials(pairs, 48, task) for pairs in (24, 4)}, draws=4)
    assert recall.pairs == (4, 24)
    measured = recall.measured.mean(1)
    assert measured[0] > 0.85 > 0.6 > measured[1] > 0.3
    assert recall.rms < 0.03
    assert recall.summary().startswith("Recall of 4 to 24 pairs, predicted from interference without a fit: ")
    for value, (low, high) in (
        (recall.median_ratio, recall.ratio_interval()),
        (recall.same_sign, recall.same_sign_interval()),
    ):
        assert ((low <= value) & (value <= high) & (low < high)).all()
    for value, (low, high) in (
        (recall.signal, recall.signal_interval()),
        (recall.interference, recall.interference_interval()),
        (recall.without.mean(2), recall.without_interval()),
    ):
        known = value.isfinite()
        assert known.any()
        assert ((low <= value) & (value <= high))[known].all()
    low, high = (float(edge[-1]) for edge in recall.ratio_interval())
    median = float(recall.ratios[-1].flatten().nanmedian())
    assert f"is {median:.2g} ({low:.2g} to {high:.2g}) times that of all others" in recall.summary()
    low, high = recall.dimension_interval()
    assert 1 < low < recall.dimension < high <= 16
    assert recall.rms_interval()[0] <= recall.rms <= recall.rms_interval()[1]


def test_accuracies_in_the_summary_have_intervals_also_where_all_answers_are_right():
    recall = ms.recall_interference(attention(torch.eye(10), TASK), {5: trials()}, draws=1)
    low, high = (float(edge) for edge in recall.interval())
    assert low == pytest.approx(12 / (12 + 1.959964**2), rel=1e-6)  # Wilson's interval of 12 of 12 sequences
    assert high == 1
    assert f"measured 100.0% ({low:.1%} to 100.0%) in 12 sequences" in recall.summary()


def test_trials_of_another_kind_are_refused_with_a_remedy():
    given = trials()
    with pytest.raises(TypeError, match=r"a RecallTrials was given: pass \{16: RecallTrials"):
        checked_trials(given)
    with pytest.raises(TypeError, match="must be RecallTrials, which know the step of each value, but a Batch"):
        checked_trials({5: TASK.at(5).batch(4, seed=0, number=0)})
    with pytest.raises(TypeError, match="hold tensors, but a list was given"):
        checked_trials({5: tuple.__new__(ms.RecallTrials, (given.inputs, [1], given.sources))})
    with pytest.raises(ValueError, match=r"their shapes are \(8, 12, 16\), \(8, 12\), \(7, 12\)"):
        checked_trials({5: given._replace(sources=given.sources[1:])})
    with pytest.raises(ValueError, match=r"torch.float64, torch.int64, torch.float32"):
        checked_trials({5: given._replace(sources=given.sources.float())})


def test_the_summary_compares_the_difference_with_the_scatter_between_sequences():
    recall = ms.recall_interference(attention(torch.eye(10), TASK), {5: trials(), 2: trials(2)}, draws=1)
    assert "0.0 points (0.0 to 0.0), no more than the scatter between sequences explains." in recall.summary()
    wrong = replace(recall, predicted=recall.measured - 0.5)
    assert (
        "50.0 points (50.0 to 50.0), more than the scatter between sequences explains at 2 of 2 numbers."
        in wrong.summary()
    )
    one = ms.recall_interference(attention(torch.eye(10), TASK), {5: trials()}, draws=1)
    assert "explains at this number." in replace(one, predicted=one.measured - 0.5).summary()


NETWORKS = {
    "gla": lambda: ms.networks.gla(16, 8, heads=2),
    "mlstm": lambda: ms.networks.mlstm(16, 8, heads=2),
    "retnet": lambda: ms.networks.retnet(16, 8, heads=2, key_size=4),
    "mamba": lambda: ms.networks.mamba(16, 8, state_size=3),
    "mamba-negative": lambda: decaying_fast(ms.networks.mamba(16, 8, state_size=3, beta_max=2)),
    "deltaproduct": lambda: ms.networks.deltaproduct(16, 8, heads=2, factors=2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_query_reads_the_value_asked_for_and_all_others(name):
    """Against the recurrence itself, with some values set to 0 in all sequences."""
    torch.manual_seed(0)
    model, given = Model(NETWORKS[name](), 6).double(), trials(sequences=4)
    with torch.no_grad():
        [layer] = affine_layers(model, given.inputs)
        values = layer.parts.values
        recalling = Recalling(model, given, [layer])
        for query in recalling.queries():
            [read] = query.reads
            asked_for = torch.arange(len(values)).unsqueeze(1) == given.sources[query.step]
            others = ~asked_for & (torch.arange(len(values)) < query.step).unsqueeze(1)
            for chosen, part in ((asked_for, read.signal), (others, read.others)):
                kept = values * ~chosen.view(*chosen.shape, *(1,) * (values.dim() - 2))
                less = replace(layer, parts=layer.parts._replace(values=kept))
                assert torch.allclose((layer.reads() - less.reads())[query.step].real, part)
            # reading more by the removed part, the network answers as the recurrence without it
            expected = model.readout(less.outputs())[query.step].argmax(-1) == given.targets[query.step]
            right = recalling.right(query, {0: -read.others})
            assert torch.equal(right[query.asked], expected[query.asked].double())
            assert right[~query.asked].isnan().all()


def two_layers(family="gated-deltanet", **options):
    torch.manual_seed(0)
    return Model(ms.networks.blocks(16, 8, family, depth=2, heads=1, **options), 6).double()


def test_unchanged_reads_of_all_layers_give_the_answers_of_the_network():
    given, model = trials(task=replace(TASK, apart=True)), two_layers()
    with torch.no_grad():
        answers = (model(given.inputs)[0].argmax(-1) == given.targets).double()
        recalling = Recalling(model, given, affine_layers(model, given.inputs))
        for query in recalling.queries():
            right = recalling.right(
                query, {which: torch.zeros_like(read.others) for which, read in [*enumerate(query.reads)]}
            )
            assert torch.equal(right[query.asked], answers[query.step, query.asked])


def test_the_reads_of_two_layers_change_together():
    """Against states that are changed by hand."""
    given, model = trials(task=replace(TASK, apart=True)), two_layers("retnet")
    with torch.no_grad():
        recalling = Recalling(model, given, affine_layers(model, given.inputs))
        for query in recalling.queries():
            changes, state = {}, []
            for which, (read, old) in enumerate(zip(query.reads, query.state, strict=True)):
                changes[which] = 30 * read.others
                along = read.reader.conj() / read.reader.abs().square().sum(-1, keepdim=True)
                state.append(old._replace(S=old.S + along.unsqueeze(-1) * changes[which].unsqueeze(-2)))
                assert torch.allclose(
                    (read.reader.unsqueeze(-2) @ (state[-1].S - old.S)).squeeze(-2).real, changes[which]
                )
            outputs, _ = model.cell.step(given.inputs[query.step], tuple(state))
            expected = model.readout(outputs).argmax(-1) == given.targets[query.step]
            assert torch.equal(recalling.right(query, changes)[query.asked], expected[query.asked].double())


def test_the_part_of_an_input_is_what_the_values_lose_without_it():
    """In a first layer with a convolution without its projection, and above it with the mean over replacements.

    A write of the first layer that the input makes mostly belongs to it as a whole.
    """
    given, model = trials(sequences=6, task=replace(TASK, apart=True)), two_layers()
    with torch.no_grad():
        layers = affine_layers(model, given.inputs)
        step = given.query_steps()[-1]
        own = asked_for.own_parts(model, given, layers, step)
        block, whole = model.cell.layers[0], []
        for sequence, source in enumerate(given.sources[step].tolist()):
            projected = block.core.project(block.norm(block.embed(given.inputs[:step, sequence : sequence + 1])))
            projected[source] = 0
            mixed, direct = projected.tensor_split([block.core.convolved], dim=-1)
            zeros = torch.zeros(1, *block.convolution.weight.shape, dtype=torch.float64)
            features = torch.cat([block.convolution.run(mixed, zeros)[0], direct], -1)
            rest = block.core.parts(features).values[:, 0, 0]
            written = values_written(layers[0])[sequence, 0, :step]
            mostly = (written - rest).norm(dim=1, keepdim=True) > rest.norm(dim=1, keepdim=True)
            assert torch.allclose(own[0][sequence, 0], torch.where(mostly, written, written - rest))
            whole.append(mostly[source : source + 4])
            changed = own[0][sequence, 0].abs().sum(-1) > 0
            assert changed.nonzero().flatten().tolist() == [*range(source, min(source + 4, step))]
            replaced = given.inputs[:step, [sequence] * 5].clone()
            replaced[source] = given.inputs[source, [other for other in range(6) if other != sequence]]
            above = values_written(affine_layers(model, replaced)[1])[:, 0].mean(0)
            assert torch.allclose(values_written(layers[1])[sequence, 0, :step] - own[1][sequence, 0], above)
        assert 0 < torch.cat(whole).double().mean() < 1


def test_interference_is_that_of_similar_queries_in_other_sequences_and_its_gaussian_has_the_same_moments():
    sequence, places = torch.tensor([0, 0, 1, 1, 2]), torch.rand(5, 2).double()
    generator = torch.Generator().manual_seed(0)
    rows = torch.tensor([0, 2, 4])
    drawn = torch.stack([lens._similar_queries(rows, places, sequence, generator) for _ in range(200)])
    assert [sorted(set(column.tolist())) for column in drawn.T] == [[2, 3, 4], [0, 1, 4], [0, 1, 2, 3]]
    powers, crowd = torch.randperm(400, generator=generator).double(), torch.randperm(400, generator=generator).double()
    places = torch.stack([lens._ranks(powers), lens._ranks(crowd)], 1)
    assert torch.equal(places[:, 0], powers)
    near = lens._similar_queries(torch.arange(100), places, torch.arange(400), generator)
    for query, other in enumerate(near.tolist()):
        distances = (places - places[query]).norm(dim=1)
        assert query != other
        assert (distances < distances[other]).sum() <= 8  # of 400, the 8 nearest and itself
    directions = torch.randn(7, 2, 3, dtype=torch.float64, generator=generator)
    root = lens._covariance_root(directions)
    moments = torch.stack([torch.outer(row, row) for row in directions[:, 1]]).mean(0)
    assert torch.allclose(root[1] @ root[1].mT, moments)


def test_the_layer_that_recalls_is_found_and_named():
    torch.manual_seed(0)
    task = replace(TASK, apart=True)
    model = Model(ms.networks.blocks(16, 8, "mamba2", depth=2, heads=1, state_size=4), 6)
    recall = ms.recall_interference(model, {5: trials(task=task, dtype=torch.float32)}, draws=1)
    assert recall.layers == ("layers.0", "layers.1")
    assert recall.recalling_layer == recall.layers[int(recall.without[0].mean(1).argmin())]
    assert f"asked for in {recall.recalling_layer} is" in recall.summary()
    shares = recall.without.nanmean(2)[0]
    assert f"erased in one layer: layers.0 {float(shares[0]):.1%} (" in recall.summary()
    assert f", layers.1 {float(shares[1]):.1%} (" in recall.summary()
    low, high = recall.turned_interval()
    share = f"{float(recall.turned.mean()):.1%} ({low:.1%} to {high:.1%}) of these answers would turn"
    assert recall.summary().endswith(f"{share}: the prediction does not decide them.")
    assert "Recall of 5 pairs, " in recall.summary()


def test_answers_turn_if_the_second_layer_holds_the_value_asked_for_as_in_another_sequence():
    """Against the value put into another sequence by hand, and the state of the second layer changed by hand."""
    given, model = trials(sequences=6, task=replace(TASK, apart=True)), two_layers("gla")
    with torch.no_grad():
        model.cell.layers[1].out.weight *= 100  # so that answers depend on the second layer
        layers, expected = affine_layers(model, given.inputs), []
        recalling = Recalling(model, given, layers)
        for query in recalling.queries():
            answers = model.readout(model.cell.step(given.inputs[query.step], query.state)[0]).argmax(-1)
            turned = []
            for sequence, source in enumerate(given.sources[query.step].tolist()):
                other = given.inputs[: query.step, (sequence - 3) % 6].clone()
                asks = (given.sources[query.step] == source).unsqueeze(1)
                candidates = given.inputs[source].where(asks, given.inputs[source].roll(3, 0))  # of the moved sequences
                copies = other.unsqueeze(1).repeat(1, 6, 1)
                copies[source] = candidates
                values = values_written(affine_layers(model, copies)[1])[:, 0]  # (candidates, writes, values)
                rest = values[[other for other in range(6) if other != sequence]].mean(0)
                held = values[sequence] - rest
                read = query.reads[1]
                weights = (read.reader[sequence, 0] @ carried_writes(layers[1], query.step)[sequence, 0]).real
                change = weights @ held - read.signal[sequence, 0]
                state = [part._replace(S=part.S.clone()) for part in query.state]
                reader = read.reader[sequence, 0]
                state[1].S[sequence, 0] += torch.outer(reader / (reader @ reader), change)
                outputs, _ = model.cell.step(given.inputs[query.step], tuple(state))
                answer, due = model.readout(outputs).argmax(-1)[sequence], given.targets[query.step, sequence]
                turned.append(float((answer == due) != (answers[sequence] == due)))
            expected.append(torch.tensor(turned, dtype=torch.float64).masked_fill(~query.asked, torch.nan))
        found = turned_answers(recalling)
    assert 0 < found.mean() < 1
    assert torch.allclose(found, torch.stack(expected).nanmean(0))
    single = attention(torch.eye(10), TASK)
    with torch.no_grad():
        alone = turned_answers(Recalling(single, trials(), affine_layers(single, trials().inputs)))
    assert (alone == 0).all()


@pytest.mark.parametrize("name", ["deltaproduct", "mamba-negative"])
def test_carried_writes_make_the_state(name):
    torch.manual_seed(0)
    given = trials()
    with torch.no_grad():
        [layer] = affine_layers(NETWORKS[name]().double(), given.inputs)
        written = values_written(layer)[:, :, : 4 * layer.parts.micro_steps]
        assert torch.allclose(carried_writes(layer, 4) @ written, layer.states()[3])


def test_powers_are_those_of_the_terms_of_the_read():
    torch.manual_seed(0)
    given, codes = trials(), torch.randn(10, 4, dtype=torch.float64)
    with torch.no_grad():
        [layer] = affine_layers(attention(codes, TASK), given.inputs)
        found = query_powers(layer, given, reach=2)
    queries = given.asked.nonzero().tolist()
    keys, values = given.inputs.split([10, 6], dim=-1)
    spread, same, everything = values - values.mean(1, keepdim=True), 0.0, 0.0
    for row, (step, sequence) in enumerate(queries):
        weights = (keys[:step, sequence] @ codes) @ (codes.mT @ keys[step, sequence])
        terms = (weights.unsqueeze(1) * spread[:step, sequence]).square().sum(1)
        assert torch.allclose(found.energies[row, :step], terms)
        assert (found.energies[row, step:] == 0).all()
        own = slice(int(given.sources[step, sequence]), int(given.sources[step, sequence]) + 2)
        assert torch.allclose(found.ratios()[row], terms[own].sum() / (terms.sum() - terms[own].sum()))
        alike = weights.sign() == weights[own.start].sign()
        terms[own] = 0
        same, everything = same + terms[alike].sum(), everything + terms.sum()
    powers = found.sign_powers(given.asked.shape[1])
    assert torch.allclose(powers.sum(0), torch.stack([same, everything]))
    first = found.sequence == 0
    assert torch.allclose(powers[0], torch.stack([found.same_sign[first].sum(), found.all_signs[first].sum()]))


def test_accuracy_follows_the_ratio_as_in_a_simulation():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(100_000, 8, generator=generator, dtype=torch.float64)
    noise[:, 0] += (0.3 * 10) ** 0.5  # one class has a signal
    simulated = (noise.argmax(1) == 0).double().mean()
    predicted = accuracy_at(torch.tensor([0.3, 0.0, torch.inf]), 10, 8)
    assert predicted[0] == pytest.approx(float(simulated), abs=0.006)  # four standard deviations
    assert predicted[1:].tolist() == pytest.approx([1 / 8, 1.0])


def test_few_sequences_hardly_change_the_dimension_of_values():
    """Against the covariance from which the values are drawn, and the definition by a loop over pairs of values."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([1.0] * 12 + [0.0] * 4, dtype=torch.float64)
    values = scales * torch.randn(50, 20, 3, 16, generator=generator, dtype=torch.float64)
    sequence = torch.arange(20).repeat_interleave(3)
    found = torch.stack([value_moments(each.flatten(0, 1), sequence, 20).dimension() for each in values])
    assert found.mean() == pytest.approx(12, abs=0.4)  # 10 if products of a value with itself counted
    few = values[0].flatten(0, 1) - values[0].mean((0, 1))
    products = [float(a @ b) ** 2 for i, a in enumerate(few) for j, b in enumerate(few) if i // 3 != j // 3]
    power = float(few.square().sum(1).mean())
    assert float(found[0]) == pytest.approx(power**2 / (sum(products) / len(products)))
    assert value_moments(torch.zeros(4, 2), torch.arange(4), 4).dimension() == 1
    assert value_moments(torch.eye(2), torch.arange(2), 2).dimension() == 1
    assert value_moments(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]), torch.arange(4) // 2, 2).dimension() == 2
    assert value_moments(torch.tensor([[1.0], [-1], [1j], [-1j]]), torch.arange(4) // 2, 2).dimension() == 2


def test_wrong_trials_are_refused():
    model = attention(torch.eye(10), TASK)
    with pytest.raises(ValueError, match="at least one number of pairs"):
        ms.recall_interference(model, {})
    with pytest.raises(ValueError, match=r"at least two, but they have \[1\]"):
        ms.recall_interference(model, {5: trials(sequences=1)})
    with pytest.raises(ValueError, match="one of those with 5 pairs does not"):
        ms.recall_interference(model, {5: trials()._replace(sources=torch.full((8, 12), -1))})
    with pytest.raises(ValueError, match="sources of 5 pairs name later steps"):
        ms.recall_interference(model, {5: trials()._replace(sources=torch.full((8, 12), 7))})
    with pytest.raises(TypeError, match="but a PlainAttention was given"):
        ms.recall_interference(model.cell, {5: trials()})
    with pytest.raises(ValueError, match="has 6 classes, numbered from 0, but targets from 9 to 9 are due"):
        ms.recall_interference(model, {5: trials()._replace(targets=torch.full((8, 12), 9))})


def test_trials_are_time_first_for_every_model():
    model = attention(torch.randn(10, 4, generator=torch.Generator().manual_seed(0)), TASK)
    predicted = ms.recall_interference(model, {5: trials()}, draws=1).predicted
    model.cell.batch_first = True
    assert torch.equal(ms.recall_interference(model, {5: trials()}, draws=1).predicted, predicted)


def test_the_figure_shows_measured_and_predicted_recall(tmp_path):
    model = attention(torch.randn(10, 4, generator=torch.Generator().manual_seed(0)), TASK)
    recall = ms.recall_interference(model, {2: trials(2), 5: trials()}, draws=1)
    accuracy, power = recall.figure().axes
    labels = [text.get_text() for text in accuracy.get_legend().get_texts()]
    assert labels == ["predicted", "Gaussian interference", "signal to noise alone", "measured"]
    assert power.get_title() == "Power of each step, 5 pairs"
    recall.save(tmp_path / "recall.safetensors")
    assert torch.equal(ms.RecallInterference.load(tmp_path / "recall.safetensors").predicted, recall.predicted)


def test_the_page_shows_the_measured_tables():
    root = Path(__file__).parents[2]
    results = root / "benchmarks" / "results"
    measured = "".join((results / name).read_text() for name in ("recall.md", "recall_cancelling.md"))
    tables = (root / "docs" / "recall.md").read_text().partition("## Measured")[2]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    assert {*rows} <= {*measured.splitlines()}
