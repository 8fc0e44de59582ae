"""Every relational task: labels by rules written out in plain Python from what is seen, balance, splits, shapes."""

from collections import Counter
from itertools import combinations

import pytest
import torch

from mnemoscope.relational.tasks import (
    RMTS,
    RMTS3,
    Comparison,
    DistributionOfN,
    IdentityRules,
    IdentityRules4,
    SameDifferent,
    SameDifferent6,
    shapes,
)
from mnemoscope.relational.tasks.shape_task import colours

SPLITS = ("train", "validation", "test")
BASIC = {"same/diff": SameDifferent, "RMTS": RMTS, "dist3": DistributionOfN, "identity rules": IdentityRules}
TASKS = {name: kind() for name, kind in BASIC.items()}
TASKS |= {
    "same/diff, few held out": SameDifferent(m=2, shape_seed=3),
    "RMTS, none held out": RMTS(m=0),
    "dist10": DistributionOfN(n=10, m=89),
    "dist10, thesis": DistributionOfN(n=10, m=89, restricted="thesis"),
    "dist10, code": DistributionOfN(n=10, m=89, restricted="code"),
    "dist4, thesis": DistributionOfN(n=4, restricted="thesis"),
    "dist4, code": DistributionOfN(n=4, restricted="code"),
    "RMTS3": RMTS3(),
    "RMTS3, few held out": RMTS3(m=8),
    "same/diff 6": SameDifferent6(),
    "same/diff 6, colour": SameDifferent6(spurious="colour"),
    "identity rules 4": IdentityRules4(),
    "identity rules 4, missing": IdentityRules4(variant="missing"),
    "identity rules 4, flipped": IdentityRules4(variant="flipped"),
    "identity rules 4, flipped missing": IdentityRules4(variant="flipped missing"),
    "comparison": Comparison(),
    "comparison, transitive": Comparison(transitive=True),
}
for name, kind in BASIC.items():
    for feature in ("colour", "mirror", "separated"):
        TASKS[f"{name}, {feature}"] = kind(spurious=feature)
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
    """Which of the hundred shapes an image shows, and how many pixels high."""
    found = [(int(at), size) for size in (16, 24, 32) for at in (shapes(size) == image[0]).all((1, 2)).nonzero()]
    assert len(found) == 1
    return found[0]


def seen(task, scenes):
    """The shapes of each problem, by their pixels; flat colours are left out where they have images of their own."""
    objects = scenes.objects.tolist()
    if isinstance(task, Comparison):
        return [[shape_and_size_of(scenes.images[at]) for at in row] for row in objects]
    if task.spurious == "separated":
        for row in objects:
            flat = scenes.images[row[1::2]]
            assert (flat == flat[:, :, :1, :1]).all()
            assert all((one == colours()).all(1).any() for one in flat[:, :, 0, 0])
        objects = [row[::2] for row in objects]
    names = {at: shape_of(scenes.images[at], task.spurious) for at in {at for row in objects for at in row}}
    return [[names[at] for at in row] for row in objects]


@EACH
@pytest.mark.parametrize("split", SPLITS)
def test_labels_follow_the_rule(task, split):
    scenes = task.batch(40, seed=1, number=2, split=split)
    rule = RULES[type(task)]
    assert [rule(row) for row in seen(task, scenes)] == scenes.labels.tolist()


@EACH
@pytest.mark.parametrize("size", [1, 24, 97])
def test_shapes_types_and_balance(task, size):
    for split in SPLITS:
        images, objects, labels = task.batch(size, seed=0, number=0, split=split)
        assert images.shape[1:] == (task.channels, task.height, task.width) == (3, 32, 32)
        assert objects.shape == (size, task.objects)
        assert labels.shape == (size,)
        assert (images.dtype, objects.dtype, labels.dtype) == (torch.float32, torch.int64, torch.int64)
        assert images.is_contiguous()
        assert sorted({*objects.flatten().tolist()}) == list(range(len(images)))  # each is there for something
        assert len({image.numpy().tobytes() for image in images}) == len(images)  # and once
        counts = labels.bincount(minlength=task.choices)
        assert len(counts) == task.choices
        assert counts.max() - counts.min() <= 1


@EACH
def test_the_same_arguments_give_the_same_batch_and_others_another(task):
    def batch(*arguments):
        return [part.tolist() for part in task.batch(48, *arguments)]

    first = batch(0, 0, "train")
    assert first == batch(0, 0, "train")
    assert all(first != batch(*other) for other in ((1, 0, "train"), (0, 1, "train"), (0, 0, "validation")))


def used(task, split):
    rows = [row for number in range(6) for row in seen(task, task.batch(40, 0, number, split))]
    return {shape for row in rows for shape in ([row[0][0]] if isinstance(task, Comparison) else row)}


@pytest.mark.parametrize("feature", ["nothing", "colour", "mirror", "separated"])
def test_no_shape_is_both_trained_and_tested(feature):
    task = IdentityRules(m=90, spurious=feature)
    trained, validated, tested = (used(task, split) for split in SPLITS)
    assert trained == validated
    assert len(trained) == 10
    assert len(tested) == 90
    assert not trained & tested


@pytest.mark.parametrize(
    "kind", [SameDifferent, RMTS, DistributionOfN, RMTS3, SameDifferent6, IdentityRules4, Comparison]
)
def test_no_shape_of_any_task_is_both_trained_and_tested(kind):
    trained, validated, tested = (used(kind(m=90, shape_seed=1), split) for split in SPLITS)
    assert trained == validated
    assert len(trained) == 10
    assert not trained & tested


def test_held_out_shapes_follow_their_seed_and_none_held_out_are_all():
    assert used(RMTS(m=90), "train") != used(RMTS(m=90, shape_seed=1), "train")
    assert used(RMTS(m=0), "train") == used(RMTS(m=0), "test") == {*range(100)}


@EACH
def test_segments_are_parts_of_the_objects(task):
    if task.segments is not None:
        assert sum(task.segments) == task.objects
        assert len(task.segments) > 1


@pytest.mark.parametrize(
    ("task", "published"), [(SameDifferent(), 200418), (RMTS(), 205026), (DistributionOfN(), 211684),
                            (IdentityRules(), 211684), (SameDifferent6(), 205026), (RMTS3(), 211170),
                            (IdentityRules4(), 223974)]
)  # fmt: skip
def test_numbers_of_objects_and_choices_give_the_published_parameters(task, published):
    # Kerg, C.7 Table 3: encoder, context normalisation, and two layers over the lower triangle of the similarities
    relations = task.objects * (task.objects + 1) // 2
    assert 198624 + 256 + (relations + 1) * 256 + 257 * task.choices == published


def test_all_problems_of_a_task_occur_as_often():
    # every row by itself: chances beyond five standard deviations are no accident
    for task, kinds, drawn in ((RMTS(), 4, 4), (IdentityRules(), 60, 72), (DistributionOfN(), 144, 144)):
        rows = [form(row) for number in range(10) for row in seen(task, task.batch(720, 0, number, "train"))]
        counts = Counter(rows)
        assert len(counts) == kinds
        for row, count in counts.items():
            # with aaa bb two candidates are new, so that two of the drawn orders look alike
            expected = len(rows) / drawn * (2 if row[:3] == (0, 0, 0) else 1)
            assert abs(count - expected) < 5 * expected**0.5


def test_rules_are_balanced_too():
    rows = [form(row[:3]) for row in seen(IdentityRules(), IdentityRules().batch(96, 0, 0))]
    assert Counter(rows) == {(0, 0, 0): 32, (0, 1, 0): 32, (0, 1, 1): 32}


def test_features_beside_the_shape_say_nothing_of_the_label():
    # whether two objects have the same colour, or are both mirrored, is as likely in either class
    _, objects, labels = SameDifferent(spurious="separated").batch(4000, 0, 0)
    same_colour = objects[:, 1] == objects[:, 3]
    for label in (0, 1):
        assert abs(int(same_colour[labels == label].sum()) - 20) < 5 * 20**0.5
    scenes = SameDifferent(m=98, spurious="mirror").batch(4000, 0, 0)
    same_image = (scenes.objects[:, 0] == scenes.objects[:, 1])[scenes.labels == 0]
    assert abs(int(same_image.sum()) - 1000) < 5 * 500**0.5


def orders(task, split):
    """The place in row 1 of each object of row 2, its hidden last included."""
    n = task.n
    for row in seen(task, task.batch(400, 0, 0, split)):
        shown = [row[:n].index(shape) for shape in row[n : 2 * n - 1]]
        yield (*shown, *({*range(n)} - {*shown}))


@pytest.mark.parametrize("n", [4, 5, 10])
def test_restricted_orders_keep_the_first_or_do_not(n):
    for restricted, keeping in (("thesis", ("train", "validation")), ("code", ("test",))):
        task = DistributionOfN(n=n, m=89, restricted=restricted)
        for split in SPLITS:
            kept = {{*order[: n - 3]} == {*range(n - 3)} for order in orders(task, split)}
            assert kept == {split in keeping}
    task = DistributionOfN(n=4, restricted="code")
    assert len({*orders(task, "train")}) == 24 - 6
    assert len({*orders(task, "test")}) == 6


TWO, THREE = ("aaaa", "abaa", "aaba", "baaa", "abba", "abab", "aabb"), ("abca", "baca", "bcaa")


@pytest.mark.parametrize(
    ("variant", "trained", "tested"),
    [
        ("plain", TWO, THREE),
        ("missing", ("aaaa", "aaba", "baaa", "abba", "aabb"), THREE),
        ("flipped", THREE, TWO),
        ("flipped missing", ("baca", "bcaa"), TWO),
    ],
)
def test_identity_rules_of_four_are_those_of_their_variant(variant, trained, tested):
    task = IdentityRules4(variant=variant)
    for split, rules in (("train", trained), ("validation", trained), ("test", tested)):
        rows = [form(row[:4]) for row in seen(task, task.batch(20 * len(rules), 0, 0, split))]
        assert Counter(rows) == {form(rule): 20 for rule in rules}


def test_triplets_to_match_are_those_of_the_split():
    train = "aaa bbb cdc, aaa bbb dcc, aba cdc eee, abb cdd eee, aba cdc eff, abb cdd efe"
    for split, patterns in (("train", train), ("validation", train), ("test", "aab ccd efg, abc def ggh")):
        expected = set()
        for pattern in patterns.split(", "):
            source, match, other = pattern.split()
            expected |= {form(source + match + other), form(source + other + match)}
        assert {form(row) for row in seen(RMTS3(m=50), RMTS3(m=50).batch(240, 0, 0, split))} == expected


def test_triplets_to_compare_are_those_of_the_split():
    kinds = {form("aaa"): "aaa", form("aab"): "aab", form("aba"): "aba", form("abb"): "abb or baa"}
    for split in SPLITS:
        scenes = SameDifferent6().batch(240, 0, 0, split)
        pairs = Counter()
        for row, label in zip(seen(SameDifferent6(), scenes), scenes.labels.tolist(), strict=True):
            one, other = kinds[form(row[:3])], kinds[form(row[3:])]
            assert (one == other) == (label == 0)
            pairs[tuple(sorted({one, other}))] += 1
        if split == "test":
            assert pairs == {("aab",): 120, ("aaa", "aab"): 40, ("aab", "aba"): 40, ("aab", "abb or baa"): 40}
        else:
            same = {(kind,): 40 for kind in ("aaa", "aba", "abb or baa")}
            different = {("aaa", "aba"): 40, ("aaa", "abb or baa"): 40, ("aba", "abb or baa"): 40}
            assert pairs == same | different


def test_sizes_to_compare_are_those_of_the_split():
    for task, trained in ((Comparison(), {(16, 32): 20}), (Comparison(transitive=True), {(16, 24): 10, (24, 32): 10})):
        for split in SPLITS:
            sizes = Counter(
                tuple(sorted(size for _, size in row)) for row in seen(task, task.batch(20, 0, 0, split))
            )  # fmt: skip
            assert sizes == ({(16, 32): 20} if split == "test" else trained)


@pytest.mark.parametrize("kind", BASIC.values())
def test_as_many_shapes_as_a_problem_needs_must_be_left(kind):
    most = {SameDifferent: 98, RMTS: 95}.get(kind, 96)
    kind(m=most)
    with pytest.raises(ValueError, match=f"m = {most + 1} leaves {99 - most} of 100 .* Hold out at most {most}"):
        kind(m=most + 1)
    with pytest.raises(ValueError, match=f"only m = 1 are held out. Hold out at least {100 - most}, or none"):
        kind(m=1)


def unchecked(task, **options):
    """Make a task with options of wrong types, which the tests' type checks would not let through."""
    for name, value in options.items():
        object.__setattr__(task, name, value)
    task.__post_init__()


def test_clear_errors():
    with pytest.raises(ValueError, match="m must be a whole number, at least 0, but is -1"):
        RMTS(m=-1)
    with pytest.raises(ValueError, match="'colour', 'mirror', 'separated', but is 'color'"):
        unchecked(RMTS(), spurious="color")
    with pytest.raises(ValueError, match='must be "no", "thesis" or "code", but is'):
        unchecked(DistributionOfN(), restricted="paper")
    with pytest.raises(ValueError, match="m = 101 leaves 0 of 100"):
        RMTS(m=101)
    with pytest.raises(ValueError, match="Hold out at most 89"):
        DistributionOfN(n=10)
    with pytest.raises(ValueError, match="n must be a whole number, at least 4, but is 3"):
        DistributionOfN(restricted="thesis")
    with pytest.raises(ValueError, match="Hold out at least 8, or none"):
        RMTS3(m=7)
    with pytest.raises(ValueError, match="'flipped', 'flipped missing', but is 'turned'"):
        unchecked(IdentityRules4(), variant="turned")
    with pytest.raises(ValueError, match="Hold out at most 99"):
        Comparison(m=100)
    with pytest.raises(ValueError, match="A batch has at least one example"):
        RMTS().batch(0, 0, 0)


def test_the_hundred_shapes():
    pixels = shapes()
    assert pixels.shape == (100, 32, 32)
    ink = [1 - sum(image.flatten().tolist()) / 1024 for image in pixels]
    assert min(ink) >= 0.04
    assert max(ink) <= 0.57
    for one, other in combinations(pixels, 2):
        for seen_as in (other, other.flip(-1)):
            assert ((one - seen_as) ** 2).mean().sqrt() >= 0.25


def test_smaller_shapes_are_the_same_in_the_middle():
    small, large = shapes(16), shapes(32)
    assert (small[:, :8] == 1).all()
    assert (small[:, :, 24:] == 1).all()
    averaged = large.view(100, 16, 2, 16, 2).mean((2, 4))
    torch.testing.assert_close(small[:, 8:24, 8:24], averaged)
    with pytest.raises(ValueError, match="1 to 32 pixels"):
        shapes(33)
