"""Numbers of trained networks on pages are those of the committed results."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def row(page, label):
    """Return the cells of the row of a table that begins with a label, as numbers."""
    text = (ROOT / "docs" / page).read_text()
    cells = next(line for line in text.splitlines() if line.startswith(f"| {label} |")).split("|")[2:-1]
    return [float(cell) for cell in cells]


@pytest.mark.parametrize("label", ["leading terms", "random terms", "after 100 further steps"])
def test_the_scores_of_truncated_networks_are_those_of_the_benchmark(label):
    measured = [each[label] for each in results("low_rank_truncated")["rows"]]
    assert row("low-rank.md", label) == pytest.approx(measured, abs=0.00501)


def test_the_numbers_of_the_low_rank_decision_are_those_of_the_benchmark():
    text = (ROOT / "docs" / "low-rank.md").read_text()
    first = results("low_rank_decision")["rows"][0]
    drawn = ", ".join(f"{median:.3f}" for _, median, _ in first["accuracy of resampled networks"].values())
    shuffled = "{:.3f} to {:.3f}".format(*first["accuracy of shuffled networks"])
    (delay,) = first["by context"].values()
    assert delay["fixed points agree"]
    assert f"| accuracy on 256 fresh trials | {first['accuracy']:.3f} |" in text
    mean_field = f"{first['error of the mean field on trials']:.2f}"
    assert (
        f"exact reduction, mean field | {first['error of the exact reduction on trials']:.0e}, {mean_field} |" in text
    )
    assert f"1, 2 and 4 populations | {drawn} |" in text
    assert f"| accuracy of shuffled networks | {shuffled} |" in text
    for overlap in (0.0, 1.0):
        steps = [
            each["steps to accuracy 0.8"] for each in results("low_rank_start")["rows"] if each["overlap"] == overlap
        ]
        assert row("low-rank.md", f"overlap {overlap:g}") == steps


def test_the_numbers_of_the_low_rank_context_are_those_of_the_benchmark():
    text = " ".join((ROOT / "docs" / "low-rank.md").read_text().split())
    rows = results("low_rank_context")["rows"]
    assert "the accuracies are {:.3f}, {:.3f} and {:.3f}.".format(*(each["accuracy"] for each in rows)) in text
    contexts = [each for row in rows for each in row["by context"].values()]
    assert all(each["fixed points agree"] for each in contexts)
    assert sum(each["fixed points of the mean field"] == ["stable"] for each in contexts) == 5


def test_the_scores_of_recipes_and_of_working_memory_are_those_of_the_benchmark():
    text = (ROOT / "docs" / "low-rank.md").read_text()
    text = text[text.index("## Populations of the decision by context") :]
    rows = results("low_rank_recipes")["rows"]
    for name in {each["recipe"] for each in rows}:
        drawn = [each["populations"]["2"] for each in rows if each["recipe"] == name]
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {', '.join(f'{each:.3f}' for each in drawn)} |" in line
    trained = [each["accuracy"] for each in results("low_rank_memory")["rows"]]
    assert f"| rank 2 | {', '.join(f'{each:.3f}' for each in trained)} |" in text


def test_the_accuracies_of_the_twenty_tasks_are_those_of_the_benchmark():
    networks = [results(f"multi_task_{name}")["accuracy"] for name in ("preset", "relu")]
    for rule in networks[0]:
        assert row("cognitive-tasks.md", rule) == pytest.approx([each[rule] for each in networks], abs=0.00501)
    text = (ROOT / "docs" / "cognitive-tasks.md").read_text()
    for accuracy in networks:
        assert f"right in {sum(accuracy.values()) / len(accuracy):.1%} of trials on average" in " ".join(text.split())
    assert "silhouette 0.19" in results("multi_task_relu")["summary"]


def comparison_times():
    """Return the table of times in docs/compare.md, from the results of the benchmark."""
    lines = [
        "| method | systems | trials | steps | units | delays | rank | here | dsa-metric | ratio | default rank |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    scores = {"wasserstein": "DSA, eigenvalues", "angular": "DSA, angle", "euclidean": "InputDSA"}
    for row in results("compare_times")["rows"]:
        sizes = " | ".join(str(row[name]) for name in ("systems", "trials", "steps", "units", "delays", "rank"))
        times = f"{1000 * row['ours']:.1f} | {1000 * row['theirs']:.1f} | {row['ratio']:.1f}"
        default = f"{1000 * row['ours_default_rank']:.1f}" if "ours_default_rank" in row else ""
        lines.append(f"| {scores[row['score']]} | {sizes} | {times} | {default} |".replace("|  |", "| |"))
    return "\n".join(lines)


def test_the_times_of_comparisons_are_those_measured():
    page = (ROOT / "docs" / "compare.md").read_text()
    assert page.split("<!-- times -->")[1].split("<!-- end -->")[0].strip() == comparison_times()


@pytest.mark.parametrize("preset", ["cpu", "paper"])
def test_the_numbers_of_selection_by_context_are_those_of_the_study(preset):
    text = (ROOT / "docs" / "cognitive-tasks.md").read_text()
    stored = json.loads((ROOT / "results" / f"mante-selection.{preset}.json").read_text())
    compared = [each for each in stored["rows"] if each["published"]]
    assert len(compared) == 8
    assert all(f"| {each['ours']} |" in text for each in compared)


def test_the_numbers_of_the_tested_causes_are_those_of_the_study():
    text = (ROOT / "docs" / "cognitive-tasks.md").read_text()
    stored = json.loads((ROOT / "results" / "mante-selection.causes.json").read_text())
    rows = [each for each in stored["rows"] if each["quantity"].startswith(("44,800 trials: ", "160,000 trials: "))]
    assert len(rows) == 2 * (1 + 8 + 5)  # accuracy, the claims, and those that are measured by descent too
    named = [each for each in rows if not each["quantity"].endswith(("accuracy", "after the stimulus"))]
    further = [
        each for each in stored["rows"] if ", time constant" in each["quantity"] or ", noise" in each["quantity"]
    ]
    assert len(further) == len(rows)
    named += [each for each in further if not each["quantity"].endswith(("accuracy", "after the stimulus"))]
    assert all(f"| {each['ours']} |" in text for each in named)
