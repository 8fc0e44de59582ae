"""Every relational task: labels by rules written out in plain Python from what is seen, balance, splits, shapes."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from mnemoscope.relational.network import Scenes
from mnemoscope.tasks.relational import (
    PUBLISHED,
    RMTS,
    RMTS3,
    Comparison,
    DistributionOfN,
    IdentityRules,
    IdentityRules4,
    RelationalGame,
    SameDifferent,
    SameDifferent6,
    draw_samples,
    game_objects,
    picture,
    shapes,
)
from mnemoscope.tasks.relational.game_rules import sample_objects
from mnemoscope.tasks.relational.shape_task import colours
from mnemoscope.tasks.relational.task import BatchedGenerator, balanced, patterns_by_label, sample_distinct
from tests.slow import representatives

SPLITS = ("train", "validation", "test")
BASIC = {"same/diff": SameDifferent, "RMTS": RMTS, "dist3": DistributionOfN, "identity rules": IdentityRules}
TASKS = PUBLISHED | {
    "same/diff, few held out": SameDifferent(m=2, shape_seed=3),
    "RMTS, none held out": RMTS(m=0),
    "RMTS3, few held out": RMTS3(m=8),
    "dist4 restricted, thesis": DistributionOfN(n=4, restricted="thesis"),
    "dist4 restricted, code": DistributionOfN(n=4, restricted="code"),
    "RMTS, separated": RMTS(spurious="separated"),
    "dist3, separated": DistributionOfN(spurious="separated"),
    "identity rules, separated": IdentityRules(spurious="separated"),
    "same/diff 6, colour": SameDifferent6(spurious="colour"),
}
EACH = pytest.mark.parametrize("task", [pytest.param(task, id=name) for name, task in TASKS.items()])


def form(row):
    """The pattern of a row: for each object, where it was first seen."""
    return tuple(row.index(item) for item in row)


def only(right):
    assert right.count(True) == 1
    return right.index(True)


def same_or_different(row):
    return 0 if row[0] == row[1] else 1


def matching(row):
    part = len(row) // 3
    source, *targets = (row[at : at + part] for at in range(0, len(row), part))
    return only([form(target) == form(source) for target in targets])


def completing(row, length):
    first, second, candidates = row[:length], row[length : 2 * length - 1], row[2 * length - 1 :]
    assert not set(first) & set(second)
    assert len(set(candidates)) == len(candidates)
    return only([form([*second, candidate]) == form(first) for candidate in candidates])


def missing(row):
    n = len(row) // 3
    first, second, candidates = row[:n], row[n : 2 * n - 1], row[2 * n - 1 :]
    assert set(second) < set(first)
    assert set(first) < set(candidates)
    assert [len({*part}) for part in (first, second, candidates)] == [n, n - 1, n + 1]
    return only([candidate in first and candidate not in second for candidate in candidates])


def same_triplets(row):
    assert len({*row}) <= 2
    return 0 if row[:3] == row[3:] else 1


def larger(row):
    (shape, size), (other, other_size) = row
    assert shape == other
    assert size != other_size
    return 0 if size > other_size else 1


def outer_alike(cells):
    (first, one), (second, middle), (third, other) = [(divmod(at, 3), it) for at, it in enumerate(cells) if it]
    assert (one == other) + (one == middle) + (middle == other) < 2
    turn = (second[0] - first[0]) * (third[1] - first[1]) - (third[0] - first[0]) * (second[1] - first[1])
    return int(turn == 0 and one == other)


def found_below(cells, exclusively=False):
    assert [at for at, it in enumerate(cells) if it] == [1, 6, 7, 8]
    top, bottom = cells[1], cells[6:]
    others = [it for it in bottom if it != top]
    return int(len(others) == 2 and (not exclusively or others[0] != others[1]))


def rows_alike(cells):
    top, between, bottom = cells[:3], cells[3:6], cells[6:]
    assert all(top + bottom)
    assert not any(between)
    assert not {*top} & {*bottom}
    return int(form(top) == form(bottom))


def colour_and_shape(image):
    """The one colour of an object and the pixels that have it."""
    lit = image.amax(0) > 0
    (colour,) = {*map(tuple, (255 * image[:, lit]).round().int().T.tolist())}
    return colour, lit.flatten().tolist()


def alike_in_which(cells):
    (colour, shape), (other_colour, other_shape) = [colour_and_shape(pixels_of(it)) for it in cells if it]
    return 2 * (colour != other_colour) + (shape != other_shape)


def darker_to_the_left(cells):
    weights = (0.2126, 0.7152, 0.0722)
    shown = []
    for at, it in enumerate(cells):
        if it:
            colour, _ = colour_and_shape(pixels_of(it))
            shown.append((sum(weight * part for weight, part in zip(weights, colour, strict=True)), at % 3, at // 3))
    (dark, column, row), (bright, other_column, other_row) = sorted(shown)
    assert bright - dark > 0.1
    return int(column < other_column or (column == other_column and row > other_row))


GAME_RULES = {
    "same": lambda cells: int(len({it for it in cells if it}) == 1),
    "between": outer_alike,
    "occurs": found_below,
    "xoccurs": lambda cells: found_below(cells, exclusively=True),
    "row matching": rows_alike,
    "colour/shape": alike_in_which,
    "left-of": darker_to_the_left,
}


def pixels_of(content):
    return torch.frombuffer(bytearray(content), dtype=torch.float32).view(3, 12, 12)


RULES = {
    SameDifferent: same_or_different,
    RMTS: matching,
    IdentityRules: lambda row: completing(row, 3),
    DistributionOfN: missing,
    RMTS3: matching,
    SameDifferent6: same_triplets,
    IdentityRules4: lambda row: completing(row, 4),
    Comparison: larger,
}


def shape_of(image, spurious):
    """Which of the hundred shapes an image shows, by its pixels."""
    known = shapes()
    assert torch.isfinite(image).all()
    assert 0 <= image.min() <= image.max() <= 1
    if spurious == "colour":
        paper = image.amax((1, 2), keepdim=True)
        assert (paper.flatten() - colours()).abs().amax(1).min() < 1e-6
        image = image / paper
    assert (image - image[:1]).abs().max() < 1e-5  # grey
    far = (known - image[0]).abs().amax((1, 2))
    if spurious == "mirror":
        far = torch.minimum(far, (known.flip(-1) - image[0]).abs().amax((1, 2)))
    assert (far < 1e-5).sum() == 1
    return int(far.argmin())


def shape_and_size_of(image):
    """Return which of the hundred shapes an image shows, and its height in pixels."""
    found = [(int(at), size) for size in (16, 24, 32) for at in (shapes(size) == image[0]).all((1, 2)).nonzero()]
    assert len(found) == 1
    return found[0]


def seen(task, scenes):
    """Return the shapes of each problem, by their pixels; images of a flat colour are omitted."""
    objects = scenes.objects.tolist()
    if isinstance(task, RelationalGame):  # content of each cell, by its pixels; None if empty
        return [
            [scenes.images[at].numpy().tobytes() if scenes.images[at].any() else None for at in row] for row in objects
        ]
    if isinstance(task, Comparison):
        return [[shape_and_size_of(scenes.images[at]) for at in row] for row in objects]
    if task.spurious == "separated":
        for row in objects:
            flat = scenes.images[row[1::2]]
            assert (flat == flat[:, :, :1, :1]).all()
            assert all((colour == colours()).all(1).any() for colour in flat[:, :, 0, 0])
        objects = [row[::2] for row in objects]
    names = {at: shape_of(scenes.images[at], task.spurious) for at in {at for row in objects for at in row}}
    return [[names[at] for at in row] for row in objects]


@representatives(
    "test-RMTS3, few held out",
    "test-game: between, stripes",
    "test-game: left-of",
    "test-game: occurs, stripes",
    "test-same/diff 6",
    "train-RMTS3",
    "train-comparison",
    "train-dist3, mirror",
    "train-game: between",
    "train-game: colour/shape",
    "train-game: same, stripes",
    "train-game: xoccurs, stripes",
    "train-identity rules 4 missing",
    "train-same/diff",
    "validation-RMTS, separated",
    "validation-dist4 restricted, code",
    "validation-dist4 restricted, thesis",
    "validation-game: row matching, stripes",
    "validation-identity rules",
    "validation-same/diff 6, colour",
)
@EACH
@pytest.mark.parametrize("split", SPLITS)
def test_labels_follow_the_rule(task, split):
    scenes = task.batch(40, seed=1, number=2, split=split)
    rule = GAME_RULES[task.rule] if isinstance(task, RelationalGame) else RULES[type(task)]
    assert [rule(row) for row in seen(task, scenes)] == scenes.labels.tolist()


@representatives(
    "1-RMTS, mirror",
    "1-RMTS3, few held out",
    "1-dist3, separated",
    "1-dist4 restricted, thesis",
    "1-game: between, stripes",
    "1-game: left-of",
    "1-game: occurs, stripes",
    "1-game: same",
    "1-game: xoccurs, stripes",
    "1-identity rules, colour",
    "1-same/diff 6, colour",
    "24-game: colour/shape",
    "24-game: row matching, stripes",
    "24-identity rules 4",
    "24-same/diff, colour",
    "24-same/diff, separated",
    "24-transitive comparison",
)
@EACH
@pytest.mark.parametrize("size", [1, 24, 97])
def test_shapes_types_and_balance(task, size):
    for split in SPLITS:
        images, objects, labels = task.batch(size, seed=0, number=0, split=split)
        assert images.shape[1:] == (task.channels, task.height, task.width)
        assert images.shape[2:] == ((12, 12) if isinstance(task, RelationalGame) else (32, 32))
        assert objects.shape == (size, task.objects)
        assert labels.shape == (size,)
        assert (images.dtype, objects.dtype, labels.dtype) == (torch.float32, torch.int64, torch.int64)
        assert images.is_contiguous()
        assert sorted({*objects.flatten().tolist()}) == list(range(len(images)))  # each is there for something
        assert len({image.numpy().tobytes() for image in images}) == len(images)  # and once
        counts = labels.bincount(minlength=task.choices)
        assert len(counts) == task.choices
        assert counts.max() - counts.min() <= 1


@representatives("game: between", "game: occurs", "game: left-of", "RMTS3, few held out", "transitive comparison")
@EACH
def test_batches_that_are_drawn_at_once_follow_the_rule_and_are_balanced(task):
    codes, labels = task.draw_batches(24, 3, seed=1, number=2)
    distinct, objects = codes.unique(return_inverse=True)
    rule = GAME_RULES[task.rule] if isinstance(task, RelationalGame) else RULES[type(task)]
    rows = seen(task, Scenes(task.images(distinct, "train"), objects, labels))
    assert [rule(row) for row in rows] == labels.tolist()
    for batch in labels.split(24):
        counts = batch.bincount(minlength=task.choices)
        assert counts.max() - counts.min() <= 1
    assert not torch.equal(codes[:24], codes[24:48])
    (codes, labels), scenes = task.draw_batches(24, 1, seed=1, number=2), task.batch(24, seed=1, number=2)
    assert torch.equal(codes.unique(return_inverse=True)[1], scenes.objects)
    assert torch.equal(labels, scenes.labels)


def test_the_rows_of_a_label_are_balanced_in_each_batch_that_is_drawn_at_once():
    generator = BatchedGenerator()
    generator.manual_seed(0)
    generator.batches = 4
    labels = balanced(4 * 30, 2, generator)
    rows = patterns_by_label(labels, (torch.arange(5)[:, None], 5 + torch.arange(4)[:, None]), generator)
    for batch in rows.flatten().split(30):
        assert batch.bincount(minlength=9)[:5].tolist() == 5 * [3]
        assert sorted(batch.bincount(minlength=9)[5:].tolist()) == [3, 4, 4, 4]


def test_distinct_numbers_of_many_are_distinct_and_equally_frequent():
    generator = BatchedGenerator()
    generator.manual_seed(0)
    generator.batches = 2
    drawn = sample_distinct(6000, 2, 20, generator)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    pairs = (20 * drawn[:, 0] + drawn[:, 1]).bincount(minlength=400)
    expected = 6000 / (20 * 19)
    pairs = pairs[pairs > 0]
    assert len(pairs) == 20 * 19
    assert ((pairs - expected) ** 2 / expected).sum() < 379 + 5 * (2 * 379) ** 0.5  # chi-squared, five deviations


@representatives("same/diff", "same/diff 6, colour")
@EACH
def test_batches_depend_on_their_arguments_alone(task):
    def batch(*arguments):
        return [part.tolist() for part in task.batch(48, *arguments)]

    first = batch(0, 0, "train")
    assert first == batch(0, 0, "train")
    assert all(first != batch(*other) for other in ((1, 0, "train"), (0, 1, "train"), (0, 0, "validation")))


def used(task, split, batches=6):
    rows = [row for number in range(batches) for row in seen(task, task.batch(40, 0, number, split))]
    return {shape for row in rows for shape in ([row[0][0]] if isinstance(task, Comparison) else row)}


@representatives("nothing")
@pytest.mark.parametrize("feature", ["nothing", "colour", "mirror", "separated"])
def test_no_shape_is_both_trained_and_tested(feature):
    task = IdentityRules(m=50, spurious=feature)
    trained, validated, tested = (used(task, split, batches=3) for split in SPLITS)
    assert trained == validated
    assert len(trained) == 50
    assert len(tested) == 50
    assert not trained & tested


@representatives("SameDifferent", "RMTS3")
@pytest.mark.parametrize(
    "kind", [SameDifferent, RMTS, DistributionOfN, RMTS3, SameDifferent6, IdentityRules4, Comparison]
)
def test_no_shape_of_any_task_is_both_trained_and_tested(kind):
    trained, validated, tested = (used(kind(m=90, shape_seed=1), split) for split in SPLITS)
    assert trained == validated
    assert len(trained) == 10
    assert not trained & tested


def test_held_out_shapes_depend_on_the_seed():
    assert used(RMTS(m=90), "train") != used(RMTS(m=90, shape_seed=1), "train")
    assert used(RMTS(m=0), "train") == used(RMTS(m=0), "test") == {*range(100)}


@representatives(
    "RMTS, mirror",
    "RMTS3",
    "dist4 restricted, thesis",
    "game: same",
    "identity rules 4 without abaa",
    "identity rules, colour",
    "same/diff 6",
    "same/diff, separated",
)
@EACH
def test_segments_are_parts_of_the_objects(task):
    if task.segments is not None:
        assert sum(task.segments) == task.objects
        assert len(task.segments) > 1


def test_segments_of_completions_are_the_first_row_and_the_rest():
    assert DistributionOfN(n=5, m=0).segments == (5, 4 + 6)
    assert IdentityRules(m=0).segments == (3, 2 + 4)
    assert RMTS(m=0, spurious="separated").segments == (4, 4, 4)


@pytest.mark.parametrize(
    ("task", "published"), [(SameDifferent(), 200418), (RMTS(), 205026), (DistributionOfN(), 211684),
                            (IdentityRules(), 211684), (SameDifferent6(), 205026), (RMTS3(), 211170),
                            (IdentityRules4(), 223974)]
)  # fmt: skip
def test_numbers_of_objects_and_choices_give_the_published_parameters(task, published):
    # Kerg, C.7 Table 3: encoder, context normalisation, and two layers over the lower triangle of the similarities
    relations = task.objects * (task.objects + 1) // 2
    assert 198624 + 256 + (relations + 1) * 256 + 257 * task.choices == published


def test_published_tasks_are_those_of_the_source():
    held_out = {"same/diff": 98, "same/diff 6": 98, "RMTS": 95, "dist3": 95, "identity rules": 95, "RMTS3": 94,
                "identity rules 4": 94, "identity rules 4 flipped missing": 94, "dist10": 89,
                "dist10 restricted, code": 89}  # fmt: skip
    assert {name: PUBLISHED[name].m for name in held_out} == held_out
    games = [task for task in PUBLISHED.values() if isinstance(task, RelationalGame)]
    assert [(game.rule, game.test_set) for game in games] == [
        *((rule, "hexominoes") for rule in GAME_RULES),
        *((rule, "stripes") for rule in GAME_RULES if rule not in ("colour/shape", "left-of")),
    ]
    assert PUBLISHED["dist10"].choices == 11
    assert len({*map(str, PUBLISHED.values())}) == len(PUBLISHED)


@EACH
def test_the_picture_of_a_problem_shows_its_objects_and_frames_the_answer(task):
    scenes = task.batch(6, 0, 0)
    for problem in range(6):
        drawn = picture(task, scenes, problem)
        gap = 0 if isinstance(task, RelationalGame) else 4
        framed, at = [], 0
        for row, length in enumerate(task.rows):
            for column in range(length):
                y, x = (gap + place * (task.height + gap) for place in (row, column))
                image = scenes.images[scenes.objects[problem, at]].permute(1, 2, 0)
                assert (drawn[y : y + task.height, x : x + task.width] == image).all()
                around = ((y - 1, x), (y, x - 1), (y + task.height, x), (y, x + task.width))
                if gap and all(drawn[place][0] > drawn[place][2] for place in around):  # red, not grey
                    framed.append(at)
                at += 1
        assert at == task.objects
        assert framed == answer_objects(task, int(scenes.labels[problem]))


def answer_objects(task, label):
    """The objects, counted from 0, that are the right answer where they are among those shown."""
    each = 2 if getattr(task, "spurious", "") == "separated" else 1
    if isinstance(task, Comparison):
        return [label]
    if isinstance(task, (RMTS, RMTS3)):
        part = task.objects // 3
        return [*range((1 + label) * part, (2 + label) * part)]
    if isinstance(task, (IdentityRules, DistributionOfN)):
        first = task.objects - each * (task.choices - label)
        return [*range(first, first + each)]
    return []


def test_samples_of_every_task_are_drawn_with_their_labels():
    figure = draw_samples(split="test")
    titles = [panel.get_title() for panel in figure.axes if panel.images]
    assert len(titles) == len(PUBLISHED)
    for number, (title, (name, task)) in enumerate(zip(titles, PUBLISHED.items(), strict=True)):
        label = int(task.batch(1, 0, number, "test").labels)
        assert title == f"{name}\n{label}: {task.answers[label]}"


def test_all_problems_of_a_task_are_equally_frequent():
    # every row by itself: chances beyond five standard deviations are no accident
    for task, kinds, drawn in ((RMTS(), 4, 4), (IdentityRules(), 60, 72), (DistributionOfN(), 144, 144)):
        rows = [form(row) for number in range(10) for row in seen(task, task.batch(720, 0, number, "train"))]
        counts = Counter(rows)
        assert len(counts) == kinds
        for row, count in counts.items():
            # with aaa bb two candidates are new, so that two of the drawn orders look alike
            expected = len(rows) / drawn * (2 if row[:3] == (0, 0, 0) else 1)
            assert abs(count - expected) < 5 * expected**0.5


def test_rules_are_balanced():
    rows = [form(row[:3]) for row in seen(IdentityRules(), IdentityRules().batch(96, 0, 0))]
    assert Counter(rows) == {(0, 0, 0): 32, (0, 1, 0): 32, (0, 1, 1): 32}


def test_spurious_features_are_independent_of_the_label():
    # whether two objects have the same colour, or are both mirrored, is as likely in either class
    _, objects, labels = SameDifferent(spurious="separated").batch(4000, 0, 0)
    same_colour = objects[:, 1] == objects[:, 3]
    for label in (0, 1):
        assert abs(int(same_colour[labels == label].sum()) - 20) < 5 * 20**0.5
    scenes = SameDifferent(m=98, spurious="mirror").batch(4000, 0, 0)
    same_image = (scenes.objects[:, 0] == scenes.objects[:, 1])[scenes.labels == 0]
    assert abs(int(same_image.sum()) - 1000) < 5 * 500**0.5


def test_every_object_has_an_independent_colour():
    assert torch.equal(colours(), torch.from_numpy(np.random.RandomState(0).uniform(size=(100, 3))).float())
    shown, pairs, same = set(), set(), 0
    scenes = SameDifferent(m=98, spurious="colour").batch(2000, 0, 0)
    colour = scenes.images.amax((2, 3))  # of the paper: shapes are drawn in black
    known = {tuple(one): at for at, one in enumerate(colours().tolist())}
    shape = (scenes.images.amax(1) > 0).flatten(1).float() @ torch.arange(32.0 * 32)
    for one, other in scenes.objects.tolist():
        first, second = (known[tuple(colour[at].tolist())] for at in (one, other))
        shown |= {first, second}
        pairs |= {(float(shape[one]), first), (float(shape[other]), second)}
        same += first == second
    assert len(shown) == 100
    assert len(pairs) == 2 * 100  # each shape in each colour
    assert abs(same - 20) < 5 * 20**0.5


def test_the_surplus_label_is_random():
    counts = torch.stack([balanced(4, 3, torch.Generator().manual_seed(seed)).bincount() for seed in range(60)])
    assert (counts.amax(1) == 2).all()
    assert (counts == 2).any(0).all()


def orders(task, split):
    """The place in row 1 of each object of row 2, its hidden last included."""
    n = task.n
    for row in seen(task, task.batch(400, 0, 0, split)):
        shown = [row[:n].index(shape) for shape in row[n : 2 * n - 1]]
        yield (*shown, *({*range(n)} - {*shown}))


@representatives("10")
@pytest.mark.parametrize("n", [4, 5, 10])
def test_restricted_orders_keep_or_change_the_first_objects(n):
    for restricted, keeping in (("thesis", ("train", "validation")), ("code", ("test",))):
        task = DistributionOfN(n=n, m=89, restricted=restricted)
        for split in SPLITS:
            kept = {{*order[: n - 3]} == {*range(n - 3)} for order in orders(task, split)}
            assert kept == {split in keeping}
            if split in keeping and n == 5:
                assert {order[:2] for order in orders(task, split)} == {(0, 1), (1, 0)}
                assert {order[2:] for order in orders(task, split)} == {*permutations((2, 3, 4))}
    task = DistributionOfN(n=4, restricted="code")
    assert len({*orders(task, "train")}) == 24 - 6
    assert len({*orders(task, "test")}) == 6


GAME_KINDS = {
    "pentominoes": (1225, {0, 128, 255}),
    "hexominoes": (1200, {64, 144, 192}),
    "stripes": (625, {64, 144, 192}),
}


@pytest.mark.parametrize("kind", GAME_KINDS)
def test_the_games_have_the_published_objects(kind):
    number, levels = GAME_KINDS[kind]
    images = (255 * game_objects(kind).images).round().int()
    assert len({image.numpy().tobytes() for image in images}) == len(images) == number
    outside = images.clone()
    outside[:, :, 1:10, 1:10] = 0
    assert not outside.any()
    squares = images[:, :, 1:10, 1:10].unfold(2, 3, 3).unfold(3, 3, 3)  # (objects, 3, 3, 3, 3, 3)
    assert (squares == squares[..., :1, :1]).all()
    shown = [image.flatten(1).T.tolist() for image in squares[..., 0, 0]]  # nine colours of each object
    colours = {tuple(colour) for thing in shown for colour in thing if any(colour)}
    assert len(colours) == 25
    assert {part for colour in colours for part in colour} == levels
    assert not colours & {(level,) * 3 for level in (min(levels), max(levels))}
    if kind == "stripes":
        assert all(thing[:3] == thing[3:6] == thing[6:] and thing[0] == thing[2] for thing in shown)
        return
    lit = {tuple(at for at, colour in enumerate(thing) if any(colour)) for thing in shown}
    assert {len(places) for places in lit} == {5 if kind == "pentominoes" else 6}
    assert len({smallest_image(places) for places in lit}) == 8
    assert len(lit) * 25 == number


def smallest_image(places):
    """A polyomino turned, turned over and moved into a corner in the way that sorts first."""
    images, points = [], [divmod(place, 3) for place in places]
    for _ in range(2):
        points = [(y, -x) for y, x in points]
        for _ in range(4):
            points = [(x, -y) for y, x in points]
            top, left = min(y for y, _ in points), min(x for _, x in points)
            images.append(tuple(sorted((y - top, x - left) for y, x in points)))
    return min(images)


def test_games_train_with_pentominoes_and_test_with_other_objects():
    for task in (RelationalGame("same"), RelationalGame("same", "stripes")):
        for split in SPLITS:
            known = {
                image.numpy().tobytes()
                for image in game_objects(task.test_set if split == "test" else "pentominoes")[0]
            }
            assert {it for row in seen(task, task.batch(200, 0, 0, split)) for it in row if it} <= known
    images = [game_objects(kind).images for kind in GAME_KINDS]
    assert len({image.numpy().tobytes() for kind in images for image in kind}) == sum(map(len, images))


def unlike_in(one, other):
    (colour, shape), (other_colour, other_shape) = (colour_and_shape(pixels_of(it)) for it in (one, other))
    return {(True, False): "colour", (False, True): "shape", (True, True): "both", (False, False): "nothing"}[
        colour != other_colour, shape != other_shape
    ]


def near(counts, expected):
    """Whether each count is within five standard deviations of a binomial one."""
    total = sum(counts.values())
    assert counts.keys() == expected.keys()
    for key, share in expected.items():
        assert abs(counts[key] - share * total) < 5 * (total * share * (1 - share)) ** 0.5


def test_between_fails_in_four_ways_equally_often():
    for test_set, split in (("hexominoes", "train"), ("hexominoes", "test"), ("stripes", "test")):
        task = RelationalGame("between", test_set)
        scenes = task.batch(720, 0, 0, split)
        lines, ways = Counter(), Counter()
        for cells, label in zip(seen(task, scenes), scenes.labels.tolist(), strict=True):
            at, shown = zip(*[(place, it) for place, it in enumerate(cells) if it], strict=True)
            assert len({*shown}) == 2 if label else shown[0] != shown[2]
            if at in IN_A_LINE:
                lines[at] += 1
            if not label:
                stripes = test_set == "stripes"
                ways["no line" if at not in IN_A_LINE else "line" if stripes else unlike_in(shown[0], shown[2])] += 1
        near(lines, {line: (2 if line == (3, 4, 5) else 1) / 9 for line in IN_A_LINE})
        chance = 8 / 84  # of three cells that are any, to be in a line
        if test_set == "stripes":
            near(ways, {"line": (1 + chance) / 2, "no line": (1 - chance) / 2})
            continue
        same_colour, same_shape = 1 / 25, 1 / (49 if split == "train" else 48)  # of any two objects
        alike = {"colour": same_shape, "shape": same_colour, "both": 1 - same_colour - same_shape}
        near(ways, {"no line": (1 - chance) / 4} | {way: (1 + chance * share) / 4 for way, share in alike.items()})


def test_objects_of_games_differ_in_colour_shape_or_both():
    ways = ("colour", "shape", "both")
    for rule, expected in (("same", dict.fromkeys(ways, 1 / 3)), ("left-of", {"colour": 1 / 2, "both": 1 / 2})):
        task = RelationalGame(rule)
        pairs = [[it for it in cells if it] for cells in seen(task, task.batch(400, 0, 0))]
        near(Counter(unlike_in(*pair) for pair in pairs if pair[0] != pair[1]), expected)


COUNTED = {
    ("shape", "shape", "shape"): 79, ("colour", "both", "both"): 77, ("colour", "colour", "colour"): 72,
    ("shape", "both", "both"): 68, ("both", "both", "both"): 53, ("shape", "both", "colour"): 44,
    ("colour", "both", "shape"): 43, ("shape", "colour", "both"): 42, ("both", "both", "colour"): 35,
    ("both", "shape", "both"): 31, ("colour", "shape", "both"): 29, ("both", "colour", "both"): 21,
    ("both", "both", "shape"): 20, ("both", "shape", "colour"): 6, ("both", "colour", "shape"): 2,
}  # fmt: skip
"""In which ways the first and second, second and third, first and third of three different objects are unlike, in the
622 released pictures of hexominoes that have such a column."""


def test_three_objects_differ_as_in_the_released_pictures():
    things = sample_objects(100_000, 3, game_objects("hexominoes"), torch.Generator().manual_seed(0))
    pairs = torch.stack([things[:, [0, 1]], things[:, [1, 2]], things[:, [0, 2]]], 1)
    shapes_differ, colours_differ = (part.diff().squeeze(2) != 0 for part in (pairs // 25, pairs % 25))
    way = (2 * shapes_differ + colours_differ).tolist()  # 0 nothing, 1 colour, 2 shape, 3 both
    assert not any(0 in three for three in way)
    shares = Counter(tuple(("", "colour", "shape", "both")[one] for one in three) for three in way)
    assert shares.keys() == COUNTED.keys()
    expected = {key: 622 * share / 100_000 for key, share in shares.items()}
    chi_square = sum((COUNTED[key] - number) ** 2 / number for key, number in expected.items())
    assert chi_square < 36.1  # one in a thousand, with 14 degrees of freedom


def test_stripes_that_differ_are_any_two():
    task = RelationalGame("same", "stripes")
    scenes = task.batch(2000, 0, 0, "test")
    outer = Counter()
    for cells in seen(task, scenes):
        one, other = (pixels_of(it) for it in cells if it)
        if not torch.equal(one, other):
            outer[torch.equal(one[:, 1, 1], other[:, 1, 1])] += 1
    near(outer, {True: 24 / 624, False: 600 / 624})


IN_A_LINE = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def test_all_patterns_of_the_games_occur():
    task = RelationalGame("row matching")
    rows = {form(cells[:3]) + form(cells[6:]) for cells in seen(task, task.batch(80, 0, 0))}
    assert len(rows) == 25
    task = RelationalGame("xoccurs")
    scenes = task.batch(600, 0, 0)
    assert len({form(cells) for cells in seen(task, scenes)}) == 3 + 3 + 1 + 3  # a above abc, abb, bcd, bbc
    task = RelationalGame("xoccurs", failing="abb bbc")
    assert len({form(cells) for cells in seen(task, task.batch(600, 0, 0))}) == 3 + 3 + 3
    with pytest.raises(ValueError, match="some of 'bcd bbc', but is 'abb'"):
        RelationalGame("occurs", failing="abb")
    with pytest.raises(ValueError, match="rules occurs, xoccurs, but the rule is 'same'"):
        RelationalGame("same", failing="abb")
    task = RelationalGame("occurs")
    patterns = {form(cells) for cells in seen(task, task.batch(600, 0, 0))}
    assert len(patterns) == 3 + 3 + 1 + 3
    for rule in ("same", "colour/shape", "left-of"):
        task = RelationalGame(rule)
        places = {tuple(at for at, it in enumerate(cells) if it) for cells in seen(task, task.batch(600, 0, 0))}
        assert len(places) == 36  # every two of nine cells


TWO, THREE = ("aaaa", "abaa", "aaba", "baaa", "abba", "abab", "aabb"), ("abca", "baca", "bcaa")


@representatives("plain-trained0-tested0")
@pytest.mark.parametrize(
    ("variant", "trained", "tested"),
    [
        ("plain", TWO, THREE),
        ("missing", ("aaaa", "aaba", "baaa", "abba", "aabb"), THREE),
        ("without abaa", ("aaaa", "aaba", "baaa", "abba", "abab", "aabb"), THREE),
        ("without abab", ("aaaa", "abaa", "aaba", "baaa", "abba", "aabb"), THREE),
        ("flipped", THREE, TWO),
        ("flipped missing", ("baca", "bcaa"), TWO),
    ],
)
def test_identity_rules_of_four_follow_the_variant(variant, trained, tested):
    task = IdentityRules4(variant=variant)
    for split, rules in (("train", trained), ("validation", trained), ("test", tested)):
        rows = [form(row[:4]) for row in seen(task, task.batch(20 * len(rules), 0, 0, split))]
        assert Counter(rows) == {form(rule): 20 for rule in rules}


def test_triplets_to_match_follow_the_split():
    train = "aaa bbb cdc, aaa bbb dcc, aba cdc eee, abb cdd eee, aba cdc eff, abb cdd efe"
    for split, patterns in (("train", train), ("validation", train), ("test", "aab ccd efg, abc def ggh")):
        expected = set()
        for pattern in patterns.split(", "):
            source, match, other = pattern.split()
            expected |= {form(source + match + other), form(source + other + match)}
        assert {form(row) for row in seen(RMTS3(m=50), RMTS3(m=50).batch(240, 0, 0, split))} == expected


def test_triplets_to_compare_follow_the_split():
    train = ({"aaa aaa": 40, "aba aba": 40, "baa baa": 40},
             {"aaa aba": 20, "aba aaa": 20, "aaa baa": 20, "baa aaa": 20, "aba baa": 20, "baa aba": 20})  # fmt: skip
    test = ({"aab aab": 120},
            {"aab aaa": 20, "aaa aab": 20, "aab aba": 20, "aba aab": 20, "aab baa": 20, "baa aab": 20})  # fmt: skip
    for split, expected in (("train", train), ("validation", train), ("test", test)):
        scenes = SameDifferent6().batch(240, 0, 0, split)
        rows = seen(SameDifferent6(), scenes)
        for label, patterns in enumerate(expected):
            own = [form(row) for row, known in zip(rows, scenes.labels, strict=True) if known == label]
            assert Counter(own) == {form(pattern.replace(" ", "")): number for pattern, number in patterns.items()}


def test_sizes_to_compare_follow_the_split():
    for task, trained in ((Comparison(), {(16, 32): 20}), (Comparison(transitive=True), {(16, 24): 10, (24, 32): 10})):
        for split in SPLITS:
            sizes = Counter(
                tuple(sorted(size for _, size in row)) for row in seen(task, task.batch(20, 0, 0, split))
            )  # fmt: skip
            assert sizes == ({(16, 32): 20} if split == "test" else trained)


@pytest.mark.parametrize("kind", BASIC.values())
def test_each_split_must_have_enough_shapes(kind):
    most = {SameDifferent: 98, RMTS: 95}.get(kind, 96)
    kind(m=most)
    with pytest.raises(
        ValueError, match=f"m = {most + 1} leaves {99 - most} of 100 .* Hold out {100 - most} to {most}, or none"
    ):
        kind(m=most + 1)
    with pytest.raises(ValueError, match=f"only m = 1 are held out. Hold out {100 - most} to {most}, or none"):
        kind(m=1)


def unchecked(task, **options):
    """Make a task with options of wrong types, which the tests' type checks would not let through."""
    for name, value in options.items():
        object.__setattr__(task, name, value)
    task.__post_init__()


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="m must be a whole number, at least 0, but is -1"):
        RMTS(m=-1)
    with pytest.raises(ValueError, match="'colour', 'mirror', 'separated', but is 'color'"):
        unchecked(RMTS(), spurious="color")
    with pytest.raises(ValueError, match='must be "no", "thesis" or "code", but is'):
        unchecked(DistributionOfN(), restricted="paper")
    with pytest.raises(ValueError, match="m = 101 leaves 0 of 100"):
        RMTS(m=101)
    with pytest.raises(ValueError, match="Hold out 11 to 89"):
        DistributionOfN(n=10)
    for m in (39, 40):
        with pytest.raises(ValueError, match="No shape can be held out: m = 0"):
            DistributionOfN(n=60, m=m)
    with pytest.raises(ValueError, match="has up to 101 different shapes; there are 100"):
        DistributionOfN(n=100, m=0)
    with pytest.raises(ValueError, match="there are none for n = 3: give 4 or more"):
        DistributionOfN(restricted="thesis")
    with pytest.raises(ValueError, match="Hold out 8 to 94, or none"):
        RMTS3(m=7)
    with pytest.raises(ValueError, match="'flipped', 'flipped missing', but is 'turned'"):
        unchecked(IdentityRules4(), variant="turned")
    with pytest.raises(ValueError, match="Hold out 1 to 99"):
        Comparison(m=100)
    with pytest.raises(ValueError, match="Did you mean 'occurs'"):
        RelationalGame("occur")
    with pytest.raises(ValueError, match=r"There is no rule \['same'\]"):
        unchecked(RelationalGame(), rule=["same"])
    with pytest.raises(ValueError, match="'left-of' does not apply to them"):
        RelationalGame("left-of", "stripes")
    with pytest.raises(ValueError, match='must be "hexominoes" or "stripes", but is'):
        unchecked(RelationalGame(), test_set="pentominoes")
    with pytest.raises(ValueError, match="A batch has at least one example"):
        RMTS().batch(0, 0, 0)


def test_the_hundred_shapes_are_distinct():
    pixels = shapes()
    assert pixels.shape == (100, 32, 32)
    ink = [1 - sum(image.flatten().tolist()) / 1024 for image in pixels]
    assert min(ink) >= 0.04
    assert max(ink) <= 0.57
    for one, other in combinations(pixels, 2):
        for seen_as in (other, other.flip(-1)):
            assert ((one - seen_as) ** 2).mean().sqrt() >= 0.25


def test_smaller_shapes_are_scaled_and_centred():
    small, large = shapes(16), shapes(32)
    assert (small[:, :8] == 1).all()
    assert (small[:, :, 24:] == 1).all()
    averaged = large.view(100, 16, 2, 16, 2).mean((2, 4))
    torch.testing.assert_close(small[:, 8:24, 8:24], averaged)
    with pytest.raises(ValueError, match="1 to 32 pixels"):
        shapes(33)
