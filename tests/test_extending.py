"""The files and the commands of the page on extending run unchanged."""

import inspect
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

from mnemoscope import registry
from mnemoscope.cli import main
from mnemoscope.registry import citations, plugins
from mnemoscope.store import read_runs
from tests.cells import test_cells
from tests.replication import test_studies
from tests.slow import SLOW
from tests.tasks import test_tasks

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A folder with the files of the page, and registries that are restored after the test."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MNEMOSCOPE_PLUGINS", "")
    monkeypatch.setattr(plugins, "_started", {})
    monkeypatch.setattr(citations, "BIBTEX", dict(citations.BIBTEX))
    for entries in registry.REGISTRIES.values():
        monkeypatch.setattr(entries, "entries", dict(entries.entries))
    modules = {name.removesuffix(".py") for name in FILES}
    yield tmp_path
    for name in modules & {*sys.modules}:
        del sys.modules[name]


def run(section, capsys):
    """Run the commands of a section in order, and return what each printed."""
    printed = []
    for command in re.findall(r"^\$ mnemoscope (.*)$", SECTIONS[section], re.MULTILINE):
        words = [word for argument in shlex.split(command) for word in _expand(argument)]
        assert main(words) == 0, capsys.readouterr().err
        printed.append(capsys.readouterr().out)
    return printed


def _expand(word):
    """Expand a pattern of paths as a shell does."""
    return sorted(str(path) for path in Path().glob(word)) if "*" in word else [word]


def test_the_page_has_a_file_for_each_kind():
    assert list(FILES) == ["leaky.py", "running_parity.py", "test_running_parity.py", "dimension.py", "recallable.py"]
    assert list(SECTIONS) == ["A cell", "A task", "A lens", "A study", "Into the house"]
    assert PAGE.count("```python") == len(FILES)


def test_the_cell_trains_and_passes_the_common_checks(house, capsys):
    trained, cited = run("A cell", capsys)
    assert re.search(r"accuracy 0\.9|accuracy 1\.0", trained)
    assert "% cell leaky\n@article{jaeger2007," in cited
    (row,) = read_runs(house / "runs")
    assert (row["cell"], row["cell_options.leak"], row["problem"]) == ("leaky", 0.7, None)
    environment = json.loads((house / row["folder"] / "env.json").read_text())
    assert environment["plugins"] == [str(house / "leaky.py")]
    cell = registry.cells.load("leaky")(3, 8).double()
    checks = [check for name, check in vars(test_cells).items() if name.startswith("test_")]
    checks = [check for check in checks if list(inspect.signature(check).parameters) == ["cell"]]
    assert len(checks) >= 7
    for check in checks:
        check(cell)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        registry.cells.load("leaky")(3, 8, leak=0.0)


def test_the_task_trains_and_passes_the_common_checks(house, capsys):
    trained, cited = run("A task", capsys)
    assert "without memory" in trained
    assert "@book{minsky1969," in cited
    namespace = {}
    exec(compile(FILES["test_running_parity.py"], "test_running_parity.py", "exec"), namespace)
    namespace["test_every_target_is_the_parity_of_the_bits_so_far"]()
    task = registry.tasks.load("running-parity")(length=4)
    for check in (
        test_tasks.test_shapes_types_and_mask,
        test_tasks.test_a_batch_depends_on_its_arguments_alone,
        test_tasks.test_numbers_seeds_and_splits_differ,
        test_tasks.test_perfect_outputs_have_no_loss_and_full_accuracy,
        test_tasks.test_loss_is_the_mean_over_the_steps_that_count,
        test_tasks.test_loss_is_zero_if_no_step_counts,
        test_tasks.test_outputs_of_the_wrong_shape_are_refused,
        test_tasks.test_no_memoryless_predictor_beats_the_baseline,
    ):
        check(task)


@pytest.mark.usefixtures("undrawn")
def test_the_lens_is_on_the_page(house, capsys):
    *_, cited = run("A lens", capsys)
    assert "% lens dimension\n@inproceedings{rajan2010," in cited
    (page,) = house.glob("runs/flipflop/*/page.html")
    text = page.read_text()
    assert '<section id="dimension"' in text
    assert "of 8 dimensions." in text
    assert "rajan2010" in text
    assert f"mnemoscope --plugin {house / 'dimension.py'} inspect runs/flipflop/{page.parent.name}" in text
    dimension = registry.lenses.load("dimension")
    states = torch.zeros(50, 4, 6)
    states[..., :3] = torch.randn(50, 4, 3, generator=torch.Generator().manual_seed(0))
    reference = torch.linalg.svdvals((states.flatten(0, 1) - states.flatten(0, 1).mean(0)).double()).square()
    result = dimension(states)
    assert result.participation == pytest.approx(float(reference.sum() ** 2 / reference.square().sum()))
    assert 2.8 < result.participation <= 3
    result.save(house / "dimension.safetensors")
    assert type(result).load(house / "dimension.safetensors").variances.equal(result.variances)
    with pytest.raises(ValueError, match="All states are the same"):
        dimension(torch.ones(3, 2, 2))


@SLOW
def test_the_study_runs_in_separate_processes(house, capsys):
    ran, _ = run("A study", capsys)
    assert len(re.findall("matches", ran)) == 2
    assert "| 5 units, noise 0: capacity per unit | at most 1 | 1.000 | [smoke]" in (house / "board.md").read_text()
    test_studies.test_a_study_has_presets_claims_and_distinct_trials("recallable")
    assert main(["study", "recallable", "--preset", "smoke", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] == 2
    assert main(["cite", "runs", "--keys"]) == 0
    assert "study recallable, lens memory-capacity" in " ".join(capsys.readouterr().out.split())
