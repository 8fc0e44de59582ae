"""The lenses on relational networks, relations, occlusion, drift and generalisation, against slow references."""

from collections import Counter
from dataclasses import fields, is_dataclass
from math import exp, isnan, log, nan, sqrt

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.lenses.relations import (
    Drift,
    Generalisation,
    Occlusion,
    Relations,
    TrainedNetwork,
    auc,
    d_prime,
    log_odds,
    measure_drift,
    measure_occlusion,
    record_relations,
)
from mnemoscope.networks.relational import MODELS, relational_model
from mnemoscope.relational import CoRelNet, Scenes, SimilarityModel, Sizes
from mnemoscope.relational.decoders import MLPDecoder
from mnemoscope.tasks.relational import RMTS, Comparison, IdentityRules, RelationalGame, SameDifferent, picture
from tests.slow import representatives

ROUNDING = 1e-12  # float64, sums of some hundreds of terms of order 1
SMALL = Sizes(objects=4, choices=3, channels=1, height=8, width=8, segments=(2, 2))
COMPARING = [name for name in MODELS if name.startswith(("corelnet", "esbn")) and name != "corelnet-nhid"]
COMPARING += ["transformer", "abstractor"]
OTHERS = {
    "predinet": "A PrediNet has no matrix of how alike its objects are: each of its heads selects two objects",
    "relation-network": "A RelationNetwork has no matrix of how alike its objects are: it computes a vector",
    "lstm": "A Recurrent has no matrix of how alike its objects are: it reads the objects in sequence",
    "ntm": "A Recurrent has no matrix",
    "ntm-extra-step": "A TuringReader has no matrix of how alike its objects are: it reads the objects in sequence",
    "mnm": "A MNM has no matrix",
}


def model_of(name, **options):
    """Return a model in double precision with nonzero weights, and with similarities that do not saturate a softmax."""
    torch.manual_seed(1)
    model = relational_model(name, SMALL, **options).double()
    for weight in model.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    model.norm.gain.data.fill_(0.15)
    return model


def scenes_of(batch=6, distinct=7):
    torch.manual_seed(2)
    images = torch.rand(distinct, 1, 8, 8, dtype=torch.float64)
    return Scenes(images, torch.randint(distinct, (batch, 4)), torch.randint(3, (batch,)))


def test_every_model_is_listed_as_comparing_or_other():
    assert {*COMPARING, "corelnet-nhid", *OTHERS} == {*MODELS}


# relations


@representatives(
    "abstractor",
    "corelnet-l1",
    "corelnet-mix",
    "corelnet-multi",
    "corelnet-printed",
    "corelnet-recurrent",
    "corelnet-t-random",
    "corelnet-t-sensory",
    "esbn-asymmetric",
    "esbn-sensory",
    "transformer",
)
@pytest.mark.parametrize("name", COMPARING)
def test_the_answer_follows_from_the_relations(name):
    model, scenes = model_of(name).eval(), scenes_of()
    seen = record_relations(model, scenes)
    with torch.no_grad():
        torch.testing.assert_close(seen.logits, model(scenes.images, scenes.objects), rtol=0, atol=ROUNDING)
        z = model.encode(scenes.images, scenes.objects).z if model.sensory else None
        if isinstance(getattr(model, "decoder", None), MLPDecoder):  # others read zeros there
            unread = seen.relations.masked_fill(~seen.read, 7.0)
            torch.testing.assert_close(model.decide(unread, z), seen.logits, rtol=0, atol=ROUNDING)
    assert seen.relations.shape == (6, len(seen.relation_names), 4, 4)
    assert seen.scores.shape == (6, len(seen.score_names), 4, 4)
    assert len({*seen.relation_names}) == len(seen.relation_names)
    assert torch.equal(seen.labels, scenes.labels)


def softmax_of(values):
    total = sum(exp(float(value)) for value in values)
    return [exp(float(value)) / total for value in values]


@pytest.mark.parametrize("name", ["corelnet", "corelnet-asymmetric", "corelnet-printed"])
def test_relations_of_corelnet_are_softmaxes_of_score_rows(name):
    seen = record_relations(model_of(name), scenes_of())
    for problem in range(6):
        for R, scores in zip(seen.relations[problem], seen.scores[problem], strict=True):
            for i in range(4):
                last = 4 if name == "corelnet-printed" else i + 1
                slow = softmax_of(scores[i, :last]) + [0] * (4 - last)
                assert R[i].tolist() == pytest.approx(slow, abs=ROUNDING)
                assert seen.read[i].tolist() == [j < last for j in range(4)]
    assert seen.used.all()


def test_learned_relations_are_their_scores():
    seen = record_relations(model_of("corelnet-multi"), scenes_of())
    assert torch.equal(seen.relations, seen.scores.tril())
    assert seen.used.all()


def test_relations_of_esbn_are_weights_and_confidences_of_stored_objects():
    model = model_of("esbn")
    model.gain.data.fill_(0.7)
    model.bias.data.fill_(-0.3)
    seen = record_relations(model, scenes_of())
    assert seen.relation_names == ("weights", "confidences")
    for problem in range(6):
        scores, (weights, confidences) = seen.scores[problem, 0], seen.relations[problem]
        for t in range(4):
            slow = softmax_of(scores[t, :t]) if t else []
            assert weights[t].tolist() == pytest.approx(slow + [0] * (4 - t), abs=ROUNDING)
            sure = [1 / (1 + exp(0.3 - 0.7 * float(score))) for score in scores[t, :t]]
            assert confidences[t].tolist() == pytest.approx(sure + [0] * (4 - t), abs=ROUNDING)
            assert seen.read[t].tolist() == [i < t for i in range(4)]


def test_relations_of_a_transformer_are_the_attention_of_torch():
    model, scenes = model_of("transformer"), scenes_of()
    seen = record_relations(model, scenes)
    with torch.no_grad():
        x = model.encode(scenes.images, scenes.objects).z + model.positions
        _, attention = model.layer.self_attn(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(seen.relations, attention, rtol=0, atol=ROUNDING)


def test_relations_of_an_abstractor_are_those_of_all_layers():
    model, scenes = model_of("abstractor", heads=2, layers=2, shared=False), scenes_of()
    seen = record_relations(model, scenes)
    assert seen.relation_names == ("layer 1 head 1", "layer 1 head 2", "layer 2 head 1", "layer 2 head 2")
    with torch.no_grad():
        z = model.encode(scenes.images, scenes.objects).z
        for number, layer in enumerate(model.layers):
            for head in range(2):
                rows = slice(64 * head, 64 * head + 64)
                q, k = (z @ part.weight[rows].mT for part in (layer.queries, layer.keys))
                slow = (q @ k.mT / sqrt(64)).softmax(2)
                torch.testing.assert_close(seen.relations[:, 2 * number + head], slow, rtol=0, atol=ROUNDING)


def test_relations_of_a_mixture_are_those_of_the_rule_that_wins():
    model, scenes = model_of("corelnet-mix"), scenes_of(batch=64)
    model.train()
    before = torch.random.get_rng_state()
    seen = record_relations(model, scenes)
    assert model.training
    assert torch.equal(
        torch.random.get_rng_state(), before
    )  # nothing is drawn at random, although the model is in training mode
    assert seen.score_names == ("symmetric", "difference")
    assert seen.used.sum(1).tolist() == [1] * 64
    assert seen.used.any(0).all()
    for problem in range(64):
        symmetric, difference = seen.scores[problem]
        if seen.used[problem, 0]:
            expected = torch.stack([torch.tensor(softmax_of(symmetric[i, : i + 1]) + [0] * (3 - i)) for i in range(4)])
        else:
            expected = difference.tril()
        torch.testing.assert_close(seen.relations[problem, 0], expected.double(), rtol=0, atol=1e-6)
    several = record_relations(model_of("corelnet-mix", relations=2), scenes)
    assert several.score_names == (
        "symmetric relation 1", "symmetric relation 2", "difference relation 1", "difference relation 2",
    )  # fmt: skip
    assert torch.equal(several.used[:, 0], several.used[:, 1])
    assert torch.equal(several.used[:, 0], ~several.used[:, 2])


@pytest.mark.parametrize("name", OTHERS)
def test_models_without_relations_are_refused(name):
    model = model_of(name)
    assert not isinstance(model, SimilarityModel)
    for lens in (record_relations, measure_occlusion):
        with pytest.raises(TypeError, match=OTHERS[name]):
            lens(model, scenes_of())


def test_mean_read_averages_over_same_and_over_different_pairs():
    seen = record_relations(model_of("corelnet"), scenes_of(batch=40, distinct=3))
    values_read = {True: [], False: []}
    for problem in range(40):
        for i in range(4):
            for j in range(i):
                same = bool(seen.objects[problem, i] == seen.objects[problem, j])
                values_read[same].append(float(seen.relations[problem, 0, i, j]))
    for same, values in values_read.items():
        assert seen.mean_read(same).item() == pytest.approx(sum(values) / len(values), abs=ROUNDING)
    assert f"{float(seen.mean_read(True)):.3g} if they are the same" in seen.summary()
    assert f"{seen.accuracy:.1%}" in seen.summary()


# what decoders read


def slow_log_odds(logits, label):
    odds = [exp(float(value)) for value in logits]
    return log(odds[label] / (sum(odds) - odds[label]))


def test_log_odds_are_those_of_the_right_answer():
    logits, labels = torch.randn(20, 5, dtype=torch.float64), torch.randint(5, (20,))
    slow = [slow_log_odds(row, int(label)) for row, label in zip(logits, labels, strict=True)]
    assert log_odds(logits, labels).tolist() == pytest.approx(slow, abs=ROUNDING)


def slow_loss(model, R, z, labels, changed_R, changed_z):
    """Return the losses in log-odds and accuracy, one problem at a time."""
    lost_log_odds = lost_accuracy = 0.0
    for b in range(len(R)):
        before, after = (
            model.decide(matrix[b : b + 1], None if x is None else x[b : b + 1])[0]
            for matrix, x in ((R, z), (changed_R, changed_z))
        )
        label = int(labels[b])
        lost_log_odds += slow_log_odds(before, label) - slow_log_odds(after, label)
        lost_accuracy += float(before.argmax() == label) - float(after.argmax() == label)
    return lost_log_odds / len(R), lost_accuracy / len(R)


@representatives("corelnet", "corelnet-multi")
@pytest.mark.parametrize("name", ["corelnet", "corelnet-multi", "corelnet-sensory", "esbn", "transformer"])
def test_the_loss_is_the_mean_over_problems_of_hiding_one_number(name):
    options = {"relations": 2} if name == "corelnet-multi" else {}
    model, scenes = model_of(name, **options).eval(), scenes_of(batch=5)
    found = measure_occlusion(model, scenes)
    with torch.no_grad():
        seen = model.encode(scenes.images, scenes.objects)
        R, z = model.compare(seen), seen.z if model.sensory else None
        count = min(R.shape[1], 2)
        for i in range(4):
            for j in range(4):
                for which in (*range(count), slice(None)):
                    mean = sum(R[b, which, i, j] for b in range(5)) / 5
                    changed = R.clone()
                    changed[:, which, i, j] = mean
                    expected = slow_loss(model, R, z, scenes.labels, changed, z)
                    part = found.pairs if isinstance(which, slice) else found.entries
                    place = (i, j) if isinstance(which, slice) else (which, i, j)
                    ours = (float(part.log_odds[place]), float(part.accuracy[place]))
                    if model.read[i, j]:
                        assert ours == pytest.approx(expected, abs=1e-10)
                    else:
                        assert all(value != value for value in ours)
        expected = slow_loss(model, R, z, scenes.labels, R.mean(0).expand_as(R), z)
        assert (float(found.relations.log_odds), float(found.relations.accuracy)) == pytest.approx(expected, abs=1e-10)
        assert (found.objects is None) == (found.sensory is None) == (z is None)
        if z is not None:
            for t in range(4):
                changed = z.clone()
                changed[:, t] = z[:, t].mean(0)
                expected = slow_loss(model, R, z, scenes.labels, R, changed)
                assert (float(found.objects.log_odds[t]), float(found.objects.accuracy[t])) == pytest.approx(expected)
    logits = model(scenes.images, scenes.objects)
    assert found.accuracy == pytest.approx(float((logits.argmax(1) == scenes.labels).double().mean()))


class Planted(nn.Module):
    """A linear decoder of two answers with given weights."""

    def __init__(self, weights, features=None):
        super().__init__()
        self.weights, self.features, self.threshold = weights, features, 0.0

    def forward(self, R, z):
        evidence = (R[:, 0] * self.weights).sum((1, 2)) - self.threshold
        if self.features is not None:
            evidence = evidence + (z * self.features).sum((1, 2))
        return torch.stack([-evidence, evidence], 1) / 2


def planted(weights, features=None):
    sizes = Sizes(objects=4, choices=2, channels=1, height=8, width=8)
    torch.manual_seed(1)
    model = CoRelNet(sizes, sensory=features is not None).double()
    model.norm.gain.data.fill_(0.15)
    model.decoder = Planted(weights, features)
    return model


def test_for_a_linear_decoder_the_loss_is_the_gradient_times_the_deviation_from_the_mean():
    model = planted(torch.randn(4, 4, dtype=torch.float64))
    scenes = scenes_of(batch=30)
    scenes = scenes._replace(labels=scenes.labels % 2)
    R = record_relations(model, scenes).relations.requires_grad_()
    (gradient,) = torch.autograd.grad(log_odds(model.decide(R, None), scenes.labels).sum(), R)
    expected = (gradient * (R - R.mean(0))).mean(0).masked_fill(~model.read, torch.nan).detach()
    found = measure_occlusion(model, scenes)
    assert float(expected.nan_to_num().abs().max()) > 1e-3
    torch.testing.assert_close(found.entries.log_odds, expected, rtol=0, atol=ROUNDING, equal_nan=True)


def test_hiding_unread_numbers_costs_nothing():
    weights = torch.zeros(4, 4, dtype=torch.float64)
    weights[3, 1] = 50.0
    model = planted(weights, torch.zeros(4, 128, dtype=torch.float64))
    scenes = scenes_of(batch=60, distinct=3)
    R = record_relations(model, scenes).relations[:, 0, 3, 1]
    model.decoder.threshold = 50 * float(R.mean()) + 1e-9
    scenes = scenes._replace(labels=(R.mean() < R).long())
    found = measure_occlusion(model, scenes)
    assert found.accuracy == 1.0
    elsewhere = found.pairs.log_odds.clone()
    assert elsewhere[3, 1] > 0.1
    elsewhere[3, 1] = 0
    assert elsewhere.nan_to_num().abs().max() < ROUNDING
    assert float(found.sensory.log_odds) == 0 == float(found.sensory.accuracy)
    assert found.objects.log_odds.abs().max() == 0
    assert "Hiding the relation of object 3 to object 1 costs most" in found.summary()


def test_hiding_relations_costs_nothing_if_the_answer_comes_from_pixels():
    features = torch.zeros(4, 128, dtype=torch.float64)
    features[2] = torch.randn(128, dtype=torch.float64)
    model = planted(torch.zeros(4, 4, dtype=torch.float64), features)
    scenes = scenes_of(batch=60)
    scenes = scenes._replace(labels=record_relations(model, scenes._replace(labels=scenes.labels % 2)).answers)
    found = measure_occlusion(model, scenes)
    assert found.accuracy == 1.0
    assert float(found.relations.log_odds) == 0
    assert found.objects.log_odds[[0, 1, 3]].abs().max() < ROUNDING
    assert float(found.objects.log_odds[2]) == pytest.approx(float(found.sensory.log_odds), abs=ROUNDING)
    assert float(found.sensory.accuracy) > 0.2
    assert "100.0% when all relations are hidden" in found.summary()


# drift


def slow_auc(same, different):
    won = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in same for b in different)
    return won / (len(same) * len(different))


def test_separation_is_counted_pair_by_pair():
    same, different = torch.randint(8, (30,)).double() + 1, torch.randint(8, (50,)).double()  # with ties
    assert auc(same, different) == pytest.approx(slow_auc(same.tolist(), different.tolist()), abs=ROUNDING)
    assert auc(same, same) == 0.5
    assert auc(same + 100, different) == 1.0
    assert isnan(auc(same[:0], different))
    assert isnan(d_prime(same[:1], different))
    spread = sqrt((float(same.var()) + float(different.var())) / 2)
    assert d_prime(same, different) == pytest.approx(float(same.mean() - different.mean()) / spread)


def test_drift_compares_products_of_normalised_objects():
    networks = {"one": model_of("corelnet"), "other": model_of("lstm")}
    for model in networks.values():
        model.norm.gain.data.fill_(0.1)  # so small that some are mistaken
    sets = {"seen": scenes_of(batch=20, distinct=3), "unseen": scenes_of(batch=20, distinct=5)}
    found = measure_drift(networks, sets)
    for n, model in enumerate(networks.values()):
        for s, scenes in enumerate(sets.values()):
            z = model.encode(scenes.images, scenes.objects).z.detach()
            same, different, mistaken, others, affected = [], [], 0, 0, []
            there, times = Counter(), Counter()
            for b in range(20):
                before = mistaken
                for i in range(4):
                    for j in range(4):
                        alike = bool(scenes.objects[b, i] == scenes.objects[b, j])
                        product = float(z[b, i] @ z[b, j])
                        if i < j:
                            (same if alike else different).append(product)
                        if not alike:
                            others += 1
                            taken = exp(product - float(z[b, i] @ z[b, i])) > 0.5
                            mistaken += taken
                            pair = tuple(sorted((int(scenes.objects[b, i]), int(scenes.objects[b, j]))))
                            there[pair] += 1
                            times[pair] += taken
                affected.append(mistaken > before)
            ours = found.pairs(n, s)
            assert [sorted(part.tolist()) for part in ours] == [
                pytest.approx(sorted(same)),
                pytest.approx(sorted(different)),
            ]
            assert float(found.mistakes[n, s]) == pytest.approx(mistaken / others)
            assert float(found.affected[n, s]) == pytest.approx(sum(affected) / 20)
            confused = found.confused_pairs(n, s, scenes.objects)
            assert {(*pair, often, there[pair]) for pair, often in times.items() if often} == {*confused}
            assert [pair.mistakes for pair in confused] == sorted((pair.mistakes for pair in confused), reverse=True)
            right = (model(scenes.images, scenes.objects).argmax(1) == scenes.labels).tolist()
            for which in (True, False):
                chosen = [right[b] for b in range(20) if affected[b] == which]
                expected = sum(chosen) / len(chosen) if chosen else nan
                assert float(found.accuracy(which)[n, s]) == pytest.approx(expected, nan_ok=True)
            assert float(found.auc[n, s]) == pytest.approx(slow_auc(*(part.tolist() for part in ours)), abs=ROUNDING)
            assert float(found.d_prime[n, s]) == pytest.approx(d_prime(*ours))
    assert (
        f"one {float(found.mistakes[0, 0]):.2%} (seen), {float(found.mistakes[0, 1]):.2%} (unseen)" in found.summary()
    )
    assert 0 < float(found.affected.min()) < float(found.affected.max())
    n, s = divmod(int(found.affected.argmax()), 2)
    assert f"{float(found.accuracy(True)[n, s]):.1%} of them are answered correctly" in found.summary()


def test_sets_of_problems_must_have_the_same_size():
    with pytest.raises(ValueError, match=r"'unseen': \(5, 4\)"):
        measure_drift({"one": model_of("corelnet")}, {"seen": scenes_of(), "unseen": scenes_of(batch=5)})
    with pytest.raises(ValueError, match="at least one network"):
        measure_drift({}, {"seen": scenes_of()})


def test_empty_cells_do_not_count_as_objects():
    task = RelationalGame("left-of")  # two objects of nine cells, never the same ones
    scenes = task.batch(20, 0, 0, "test")
    model = relational_model("corelnet", task)
    found = measure_drift({"it": model}, {"these": scenes}, {"these": task.kinds(scenes.images)})
    same, different = found.pairs(0, 0)
    assert (len(same), len(different)) == (0, 20)
    assert isnan(float(found.auc[0, 0]))
    assert "nan" not in " ".join(axes.get_xlabel() for axes in found.figure().axes)
    seen = record_relations(model, scenes, task.kinds(scenes.images))
    assert bool(seen.mean_read(True).isnan().all())
    places = [[at for at, image in enumerate(row) if scenes.images[image].any()] for row in scenes.objects.tolist()]
    assert [len(two) for two in places] == [2] * 20
    expected = [seen.relations[b, 0, max(two), min(two)] for b, two in enumerate(places)]  # rows look back
    assert float(seen.mean_read(False)[0]) == pytest.approx(float(torch.stack(expected).mean()))


@pytest.mark.parametrize("feature", ["colour", "mirror"])
def test_irrelevant_features_do_not_change_the_object(feature):
    task = SameDifferent(m=50, spurious=feature)
    scenes = task.batch(200, 0, 0, "test")
    found = measure_drift(
        {"it": relational_model("corelnet", task)}, {"these": scenes}, {"these": task.kinds(scenes.images)}
    )
    assert torch.equal(found.same[0, :, 0, 1], scenes.labels == 0)
    assert torch.equal(found.different[0, :, 0, 1], scenes.labels == 1)
    assert not bool((scenes.objects[:, 0] == scenes.objects[:, 1])[scenes.labels == 0].all())  # in other colours


def test_separate_colours_do_not_count_as_objects():
    task = SameDifferent(m=50, spurious="separated")
    scenes = task.batch(50, 0, 0, "test")
    found = measure_drift(
        {"it": relational_model("corelnet", task)}, {"these": scenes}, {"these": task.kinds(scenes.images)}
    )
    assert torch.equal(found.same[0, :, 0, 2], scenes.labels == 0)
    assert not bool(found.same[0, :, [1, 3]].any() | found.different[0, :, [1, 3]].any())


# generalisation


def test_generalisation_averages_by_network_and_by_m():
    runs = [
        TrainedNetwork("a", 95, 1.0, 0.8),
        TrainedNetwork("b", 95, 0.9, 0.9),
        TrainedNetwork("a", 0, 1.0, 1.0),
        TrainedNetwork("a", 95, 0.9, 1.0),
    ]
    found = Generalisation(tuple(runs), chance=0.25)
    assert found.curves() == {"a": [(0, 1.0, 1.0), (95, 0.95, 0.9)], "b": [(95, 0.9, 0.9)]}
    assert "a 90.0% on unseen and 95.0% on seen shapes at m = 95" in found.summary()
    assert "a 100.0% on tested and 100.0% on seen" in Generalisation((runs[2],)).summary()  # none is unseen
    with pytest.raises(ValueError, match="between 0 and 1"):
        TrainedNetwork("a", 95, 98.0, 0.8)
    with pytest.raises(ValueError, match="at least one"):
        Generalisation(())


def test_the_lenses_are_registered():
    assert ms.registry.lenses.load("relations") is ms.record_relations
    assert ms.registry.lenses.load("occlusion") is ms.measure_occlusion
    assert ms.registry.lenses.load("drift") is ms.measure_drift
    assert ms.registry.lenses.load("generalisation") is ms.Generalisation


# files and pictures


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one.nan_to_num(-7), other.nan_to_num(-7)) and one.dtype == other.dtype
    if is_dataclass(one):
        return type(one) is type(other) and all(
            equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
        )
    return one == other


@pytest.mark.parametrize("name", ["corelnet-mix", "corelnet-sensory"])
def test_load_reads_what_save_wrote(tmp_path, name):
    model, scenes = model_of(name), scenes_of()
    for kind, result in (
        (Relations, record_relations(model, scenes)),
        (Occlusion, measure_occlusion(model, scenes)),
        (Drift, measure_drift({"it": model}, {"these": scenes})),
    ):
        assert is_dataclass(result)
        result.save(tmp_path / "result.safetensors")
        again = kind.load(tmp_path / "result.safetensors")
        for field in fields(kind):
            assert equal(getattr(result, field.name), getattr(again, field.name)), field.name


TASKS = {
    "corelnet": RMTS(),
    "corelnet-mix": Comparison(),
    "corelnet-multi": RelationalGame("colour/shape"),
    "esbn": IdentityRules(),
    "corelnet-sensory": SameDifferent(),
    "transformer": RMTS(),
}


@representatives("corelnet", "corelnet-sensory")
@pytest.mark.parametrize("name", TASKS)
def test_the_figure_of_relations_shows_the_problem_and_its_matrices(name):
    pytest.importorskip("matplotlib")
    task = TASKS[name]
    torch.manual_seed(0)
    model, scenes = relational_model(name, task), task.batch(6, seed=0, number=0, split="test")
    seen = record_relations(model, scenes)
    figure = seen.figure(2, picture=picture(task, seen.scenes, 2), answer_names=task.answers)
    figure.draw_without_rendering()
    (problem,) = (axes for axes in figure.axes if axes.get_title())
    drawn = {axes.child_axes[0].get_title(): axes.images[0].get_array() for axes in figure.axes if axes.child_axes}
    assert problem.get_title() == f"Right: {task.answers[int(scenes.labels[2])]}"
    assert problem.get_xlabel().startswith(f"Answered: {task.answers[int(seen.answers[2])]} (")
    assert len(drawn) == min(len(seen.score_names), 5) + min(len(seen.relation_names), 5)
    first = seen.relation_names[0]
    read = drawn[f"Read: {first}" if first else "Read"]
    assert read.mask.tolist() == (~seen.read).tolist() if read.mask.any() else seen.read.all()
    assert torch.equal(torch.from_numpy(read.data)[seen.read], seen.relations[2, 0][seen.read])
    if name == "corelnet-mix":
        unused = [title for title in drawn if "not used" in title]
        assert len(unused) == 1
    with pytest.raises(ValueError, match="numbered 0 to 5, but problem 6"):
        seen.figure(6)


def test_the_figures_of_occlusion_drift_and_generalisation():
    pytest.importorskip("matplotlib")
    task = RMTS()
    torch.manual_seed(0)
    model = relational_model("corelnet-sensory", task)
    test, seen = (task.batch(20, seed=0, number=0, split=split) for split in ("test", "validation"))
    found = measure_occlusion(model, test)
    figure = found.figure()
    lost = next(axes for axes in figure.axes if axes.get_title() == "Log-odds lost, nats" and axes.images)
    assert torch.equal(
        torch.from_numpy(lost.images[0].get_array().data).nan_to_num(), found.pairs.log_odds.nan_to_num()
    )
    hidden = next(axes for axes in figure.axes if axes.get_title() == "When hidden")
    assert [bar.get_width() for bar in hidden.patches] == pytest.approx(
        [found.accuracy - float(lost) for lost in (0, found.relations.accuracy, found.sensory.accuracy)]
    )
    figure = measure_drift({"before": model, "after": model}, {"seen": seen, "unseen": test}).figure()
    assert [axes.get_title() for axes in figure.axes] == [
        "before, seen",
        "before, unseen",
        "after, seen",
        "after, unseen",
    ]
    figure = Generalisation((TrainedNetwork("a", 0, 1.0, 1.0), TrainedNetwork("a", 95, 1.0, 0.5)), chance=0.5).figure()
    (axes,) = figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines[:2]] == [[1.0, 1.0], [1.0, 0.5]]
