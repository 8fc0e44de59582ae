"""The table of an arena: definitions, cells, fronts and files."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import pytest

from mnemoscope.arena import Arena, ArenaTable, TrainedRun, read_arena
from mnemoscope.arena.card_table import load_cards
from mnemoscope.arena.figure import draw_curves, draw_table
from mnemoscope.arena.markdown import MARKS, longer_as_markdown, table_as_markdown, write_markdown
from mnemoscope.arena.network_cards import described_run
from mnemoscope.arena.result import DIVERGED, NOT_YET, pareto_front
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.means import t_reach

ROOT = Path(__file__).parent.parent.parent
ARENA = read_arena("tiny")


def run(network="gru", task="parity", seed=1, accuracy=0.9, **more):
    given = {"learning_rate": 0.005, "hidden_size": 8, "parameters": 1500, "state": 8, "hash": "0123456789"}
    measured = {
        "loss": 0.1,
        "steps": 200,
        "seconds": 2.0,
        "longer": (0.8, 0.6),
        "curve": () if accuracy is None else (0.5, accuracy),
    }
    return TrainedRun(network, task, seed, environment=0, accuracy=accuracy, **{**given, **measured, **more})


def table(*runs, arena=ARENA):
    return ArenaTable(arena, runs, {"parity": 0.5, "recall": 0.25}, ({"torch": "2"},))


def test_an_arena_is_read_back_from_its_own_tables():
    assert Arena.from_dict(ARENA.to_dict()) == ARENA


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [0, 1]}, "seed 0 of the tuning must not be a seed of the table"),
        ({"name": "../other"}, "name is the name of a folder"),
        ({"match": {}}, "either parameters or state"),
        ({"training": {"learning_rate": 0.1}}, "The arena determines 'learning_rate'"),
        ({"training": {"batchsize": 2}}, "Did you mean 'batch_size'"),
        ({"network": [{"name": "gru", "cell": "gru", "colour": "red"}]}, "no field 'colour'"),
        ({"network": [{"name": "gru"}]}, "field 'cell' is missing; it needs name, cell, kind"),
        ({"empty": [{"networks": ["gur"], "tasks": ["parity"], "reason": "-"}]}, "Did you mean 'gru'"),
        ({"tasks": []}, "'tasks' is no entry of an arena"),
        ({"tuning": {"learning_rates": 0.01}}, r"learning_rates of \[tuning\] must be a list, but is 0.01"),
        ({"match": {"parameters": "1500"}}, r"parameters of \[match\] must be"),
    ],
)
def test_an_arena_that_is_wrong_names_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        Arena.from_dict({**ARENA.to_dict(), **changes})


def test_a_part_of_an_arena_keeps_the_reasons_of_its_empty_cells():
    part = ARENA.part(networks=["elman"], tasks=["recall"])
    assert [each.name for each in part.networks] == ["elman"]
    assert part.reason_empty("elman", "recall") == ARENA.reason_empty("elman", "recall") != ""
    assert ARENA.part(networks=["gru"]).empty == ()


def test_a_cell_has_the_mean_and_students_interval_of_its_seeds():
    arena = replace(ARENA, seeds=(1, 2, 3))
    values = [0.90, 0.92, 0.97]
    cell = table(*(run(seed=s + 1, accuracy=a) for s, a in enumerate(values)), arena=arena).cell("gru", "parity")
    assert cell.accuracy == mean(values)
    reach = 4.5265 * stdev(values) / 3**0.5  # two standard errors of a normal number, with 2 degrees of freedom
    assert cell.interval == pytest.approx((mean(values) - reach, min(1.0, mean(values) + reach)), abs=1e-4)
    assert cell.skill == pytest.approx((mean(values) - 0.5) / 0.5)
    assert cell.longer == {16: pytest.approx(0.8), 32: pytest.approx(0.6)}
    assert cell.remarks() == []


def test_two_seeds_have_no_interval_and_a_missing_one_is_named():
    cell = table(run(seed=1)).cell("gru", "parity")
    assert cell.interval is None
    assert cell.remarks() == ["1 of 2 seeds"]


def test_a_run_that_did_not_stay_finite_is_named_and_counts_at_chance():
    found = table(run(seed=1, accuracy=0.8), run(seed=2, accuracy=None, curve=(), longer=()))
    cell = found.cell("gru", "parity")
    assert cell.accuracies == [0.8, 0.5]
    assert cell.accuracy == pytest.approx(0.65)
    assert cell.longer == {}
    assert cell.remarks() == ["1 of 2 runs did not stay finite and counts at chance"]
    assert replace(cell, chance=None).accuracies == [0.8, 0.0]
    assert replace(cell, chance=1.0).skill is None  # nothing is left to remember
    assert "did not stay finite count at chance: gru on parity." in found.summary()


def test_a_network_that_no_learning_rate_trains_has_no_skill_but_loses_no_rank_for_a_missing_task():
    lost = [run(task="recall", seed=0, accuracy=None, learning_rate=rate) for rate in ARENA.tuning.learning_rates]
    found = table(run(accuracy=1.0), *lost)
    assert found.cell("gru", "recall").accuracy is None
    assert found.mean_skill("gru") == (0.5, 2)
    assert "did not stay finite count at chance: gru on recall." in found.summary()


def test_an_empty_cell_says_why():
    lost = [run(seed=0, accuracy=None, learning_rate=rate) for rate in ARENA.tuning.learning_rates]
    found = table(*lost)
    assert found.cell("gru", "parity").reason == DIVERGED
    assert found.cell("deltanet", "parity").reason == NOT_YET
    assert found.cell("elman", "recall").reason == ARENA.empty[0].reason


def test_the_energy_of_a_cell_is_known_if_that_of_all_its_runs_is():
    assert table(run(joules=10.0), run(seed=2, joules=20.0)).cell("gru", "parity").joules == 15.0
    assert table(run(joules=10.0), run(seed=2)).cell("gru", "parity").joules is None


def test_the_front_is_what_a_comparison_of_all_pairs_leaves():
    values = (0.1, 0.2, 0.2, 0.7)
    points = {f"{n}": (cost, value) for n, (cost, value) in enumerate(product((1, 2, 2, 5), values))}
    for name, (cost, value) in points.items():
        better = [other for other in points.values() if other[0] <= cost and other[1] >= value]
        assert (name in pareto_front(points)) == all(other == (cost, value) for other in better)


def test_a_table_is_read_back_from_its_file(tmp_path):
    saved = table(run(), run("deltanet", "recall", seed=2, accuracy=1.0, longer=(0.3,), joules=5.5))
    saved.save(tmp_path / "table.json")
    assert ArenaTable.load(tmp_path / "table.json") == saved
    (tmp_path / "other.json").write_text('{"kind": "x", "arena": {}, "chances": {}, "environments": [], "runs": {}}')
    with pytest.raises(ValueError, match="not the table of an arena"):
        ArenaTable.load(tmp_path / "other.json")


def test_networks_are_ranked_by_their_mean_skill():
    found = table(run(accuracy=0.75), run("deltanet", accuracy=1.0), run("gru", "recall", accuracy=1.0))
    assert found.mean_skill("gru") == (pytest.approx(0.75), 2)
    assert found.mean_skill("deltanet") == (1.0, 1)
    assert found.ranking() == ["gru", "deltanet", "elman"]  # deltanet has not run all tasks
    assert found.front() == ["gru"]
    assert "Mean over all tasks, where chance is 0 and no error is 1: gru 0.750." in found.summary()


def test_the_mean_over_tasks_has_an_interval_from_the_variances_of_the_tasks_and_decides_little():
    arena = replace(ARENA, seeds=(1, 2, 3))
    runs = [
        run(name, task, seed=seed, accuracy=level + 0.01 * seed)
        for name, level in (("gru", 0.9), ("elman", 0.89), ("deltanet", 0.5))
        for task in ("parity", "recall")
        for seed in arena.seeds
    ]
    found = table(*runs, arena=arena)
    first, second = 0.01 / 0.5 / 3**0.5, 0.01 / 0.75 / 3**0.5  # standard errors of the skill on each task
    freedom = (first**2 + second**2) ** 2 / (first**4 / 2 + second**4 / 2)
    reach = t_reach(freedom) * (first**2 + second**2) ** 0.5 / 2
    skill = ((0.92 - 0.5) / 0.5 + (0.92 - 0.25) / 0.75) / 2
    assert found.mean_interval("gru") == pytest.approx((skill - reach, skill + reach))
    assert found.undecided("gru") == ["elman"]
    assert found.undecided("deltanet") == []
    assert "The best is not decided: other seeds may put 1 other network before gru." in found.summary()
    assert " ± " in table_as_markdown(found).replace("\N{NO-BREAK SPACE}", " ").splitlines()[4]
    assert table(*runs[:-1], arena=arena).mean_interval("deltanet") is None  # two seeds have run one of the tasks
    tuned = [run(task="recall", seed=0, accuracy=None, learning_rate=rate) for rate in (0.005, 0.02)]
    part = table(*(each for each in runs if (each.network, each.task) == ("gru", "parity")), *tuned, arena=arena)
    low, high = part.mean_interval("gru")
    assert (low + high) / 2 == pytest.approx(part.mean_skill("gru")[0])  # an untrainable task counts 0
    same = table(*(replace(each, accuracy=0.9) for each in runs), arena=arena)
    assert same.mean_interval("gru") == (same.mean_skill("gru")[0],) * 2
    assert same.undecided("gru") == ["elman", "deltanet"]
    one = [each for each in same.runs if (each.network, each.task) != ("deltanet", "recall")]
    assert table(*one, arena=arena).undecided("gru") == ["elman"]  # a mean over other tasks


def test_two_means_over_tasks_are_compared_by_the_difference_and_not_by_their_intervals():
    arena = replace(ARENA, seeds=(1, 2, 3))
    names = {"gru": 0.9, "elman": 0.9, "deltanet": 0.6}
    scores = {"gru": (0.0, 0.03, 0.06), "elman": (0.0, 0.03, 0.06), "deltanet": (0.0, 0.03, 0.06)}

    def found(gap):
        levels = {**names, "elman": 0.9 - gap}
        return table(
            *(
                run(name, task, seed=seed, accuracy=levels[name] + scores[name][seed - 1])
                for name in names
                for task in ("parity", "recall")
                for seed in arena.seeds
            ),
            arena=arena,
        )

    sides = [[found(0.1).cell(name, task).skills for task in ("parity", "recall")] for name in ("gru", "elman")]
    difference = measure_difference(*sides, 2)
    edge = 0.1 * difference.reach * difference.error / difference.gain  # two comparisons
    assert found(0.99 * edge).undecided("gru") == ["elman"]
    assert found(1.01 * edge).undecided("gru") == []
    part = found(0.1)
    fewer = [each for each in part.runs if (each.network, each.seed) != ("elman", 3)]
    assert table(*fewer, arena=arena).undecided("elman") == []  # two seeds have no interval


def test_accuracies_above_the_target_are_equal_on_a_front():
    arena = replace(ARENA, training={**ARENA.training, "target_score": 0.99})
    runs = run(accuracy=0.992, state=8), run("deltanet", accuracy=0.999, state=32)
    assert table(*runs, arena=arena).front("parity") == ["gru"]
    assert table(*runs).front("parity") == ["gru", "deltanet"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": 7}, "has the environment 7, but there are 1"),
        ({"accuracy": 7.0}, "has the accuracy 7.0"),
        ({"task": "copy"}, "the run 0123456789 of gru on copy is not in the arena"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change, message, tmp_path):
    wrong = replace(table(run()), runs=(replace(run(), **change),))
    wrong.save(tmp_path / "table.json")
    with pytest.raises(ValueError, match=message):
        ArenaTable.load(tmp_path / "table.json")
    without = replace(table(run()), chances={"parity": 0.5})
    without.save(tmp_path / "without.json")
    with pytest.raises(ValueError, match="it has no chance of the task 'recall'"):
        ArenaTable.load(tmp_path / "without.json")


def test_a_network_that_learned_before_the_first_evaluation_has_a_mark():
    lines = draw_curves(table(run(curve=(1.0,)), run("elman"))).axes[0].get_lines()
    markers = {line.get_label(): line.get_marker() for line in lines}
    assert (markers["gru"], markers["elman"]) == (".", "None")


def test_a_table_draws_itself():
    found = table(run(state=8), run("deltanet", state=32, accuracy=1.0))
    labels = {text.get_text() for text in found.figure("parity").axes[0].texts}
    assert labels == {"gru", "deltanet"}
    assert "image/png" in found._repr_html_()


def test_the_table_as_a_picture_has_all_accuracies_and_marks_missing_seeds():
    runs = [run(seed=seed, accuracy=0.75) for seed in (1, 2)] + [run("deltanet", accuracy=0.5)]
    drawn = draw_table(table(*runs, arena=read_arena("tiny").part(["gru", "deltanet"])))
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert [text for text in texts if text in ("0.75", "0.50*", "–")] == ["0.75", "–", "0.50*", "–"]
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["gru", "deltanet"]


def test_a_table_is_written_between_the_marks_of_a_page(tmp_path):
    page, found = tmp_path / "page.md", table(run(seed=1), run(seed=2))
    page.write_text(f"Before.\n{MARKS[0]}an earlier table{MARKS[1]}\nAfter.\n")
    write_markdown(page, found)
    written = page.read_text()
    assert written.startswith(f"Before.\n{MARKS[0]}\n{table_as_markdown(found)}\n\nThe same networks at spans")
    assert written.endswith(f"{longer_as_markdown(found)}\n{MARKS[1]}\nAfter.\n")
    new = write_markdown(tmp_path / "new.md", table(run(longer=())))
    assert new.read_text() == f"{MARKS[0]}\n{table_as_markdown(table(run(longer=())))}\n{MARKS[1]}\n"
    assert "| gru | 0.80 (1 of 2) | 8 | 0.90 | – |" in table_as_markdown(found, short=True)


def test_accuracies_at_the_longest_span_of_each_task_have_a_table():
    first, second = run(seed=1, longer=(0.9, 0.7)), run(seed=2, longer=(0.8, 0.6))
    lines = longer_as_markdown(table(first, second, run("elman", accuracy=None, longer=()))).splitlines()
    assert lines[0] == "| network | parity 32 | recall 3 |"
    assert "| gru | 0.650 | – |" in lines
    assert "| elman | – | – |" in lines
    assert lines[-1].startswith("| *chance* | 0.50 |")
    short = replace(ARENA, tasks=tuple(replace(each, longer=()) for each in ARENA.tasks))
    assert longer_as_markdown(table(run(longer=()), arena=short)) == ""


def test_the_page_of_the_arena_has_the_tables_of_the_results(tmp_path):
    results = ArenaTable.load(ROOT / "results" / "arena" / "memory.json")
    cards = load_cards(ROOT / "results" / "arena" / "memory-cards", results.arena)
    assert [*cards] == [task for task in results.tasks if task in results.arena.cards]
    for task, found in cards.items():
        assert found.keys() == set(results.networks)
        for name, card in found.items():
            described, run = described_run([results], name, task), card.provenance["run"]
            assert run.startswith(f"{name}.{task}/")
            assert described.hash in {run.partition("/")[2], card.provenance.get("run of the arena")}
    docs = (ROOT / "docs" / "arena.md").read_text()
    made = write_markdown(tmp_path / "table.md", results, cards).read_text().strip()
    assert made in docs
    assert table_as_markdown(results) in made
    assert results.arena == read_arena("memory")
    filled = [cell for cell in results.cells() if len(cell.runs) == 3]
    assert len({cell.network for cell in filled}) >= 16
    assert len({cell.task for cell in filled}) >= 12
