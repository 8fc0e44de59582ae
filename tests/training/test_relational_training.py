"""Training on relational problems: every task and every network, resume, penalties, the command line and the page."""

import json
import tomllib
from dataclasses import asdict, fields, replace
from html import unescape
from math import log
from pathlib import Path
from re import sub

import pytest
import torch
from torch.nn.functional import cross_entropy

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.cells import GRU, Model
from mnemoscope.cli import main
from mnemoscope.cli.entry_point import _parse
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.options import options_of
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.networks.relational import MODELS
from mnemoscope.relational import MNM, CoRelNet, SingleStepModel
from mnemoscope.tasks import RelationalSequence
from mnemoscope.tasks.relational import RMTS, SameDifferent
from mnemoscope.training import (
    RunFolder,
    build_model,
    build_task,
    evaluate,
    evaluate_tasks,
    fit_readout,
    load_model,
    task_named,
    train,
)
from mnemoscope.training.bptt import HasPenalty, backpropagate
from tests.slow import SLOW, representatives

CONFIG = RunConfig("try", "rmts", cell="corelnet", learning_rate=5e-4, steps=6, batch_size=12, evaluate_every=2,
                   evaluate_batches=2, checkpoint_every=4)  # fmt: skip
TASKS = [entry.name for entry in registry.tasks if registry.is_relational(entry.name)]
NETWORKS = [entry.name for entry in registry.networks]
ROUNDING = 1e-12  # float64, sums of some thousands of terms of order 1


def run(config, root, **settings):
    return train(config, root, progress=False, **settings)


class Crash(Exception):  # noqa: N818
    """Stands for a power failure."""


def crash_at(step):
    def callback(info):
        if info.step == step:
            raise Crash

    return callback


def artefacts(config, root):
    folder = config.folder(root)
    return [(folder / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl", "config.toml")]


# Registries and interface.


def test_the_registries_list_all_relational_tasks_and_networks():
    assert TASKS == ["same-different", "rmts", "distribution-of-n", "identity-rules", "rmts3", "same-different-6",
                     "identity-rules-4", "comparison", "relational-game"]  # fmt: skip
    assert [*MODELS] == NETWORKS
    assert all(entry.load() is MODELS[entry.name] for entry in registry.networks)
    assert {type(task_named(name).relational) for name in TASKS} == {registry.tasks.load(name) for name in TASKS}


@pytest.mark.parametrize("name", TASKS)
def test_a_relational_task_has_the_interface_of_a_task(name):
    task = task_named(name)
    relational = task.relational
    for split in ("train", "validation", "test"):
        batch, scenes = task.batch(24, 3, 5, split), relational.batch(24, 3, 5, split)
        assert all(torch.equal(part, expected) for part, expected in zip(batch.inputs, scenes, strict=True))
        assert torch.equal(batch.targets, scenes.labels.view(1, 24))
        assert batch.mask.shape == (1, 24)
        assert batch.mask.all()
        assert task.output_size == relational.choices
        assert task.loss(torch.zeros(1, 24, relational.choices), batch).item() == pytest.approx(
            task.baseline(), rel=1e-6
        )
        guesses = torch.randn(1, 24, relational.choices)
        right = sum(int(guesses[0, each].argmax()) == int(scenes.labels[each]) for each in range(24))
        assert task.scores(guesses, batch) == {"accuracy": pytest.approx(right / 24)}
        slow = -sum(guesses[0, each].log_softmax(0)[scenes.labels[each]] for each in range(24)) / 24
        assert task.loss(guesses, batch).item() == pytest.approx(slow.item(), rel=1e-5)
    assert task.baseline() == log(relational.choices)
    assert task.input_size == batch.inputs.images[0].numel()


def test_a_problem_is_one_step_that_is_never_cut():
    batch = RelationalSequence(RMTS()).batch(4, 0, 0)
    for length in (None, 1, 500):
        assert [*batch.windows(length)] == [batch]
    moved = batch.to("cpu")
    assert all(torch.equal(part, expected) for part, expected in zip(moved.inputs, batch.inputs, strict=True))
    assert type(moved.inputs) is type(batch.inputs)


# Training.


@representatives("corelnet", "abstractor")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_includes_loss_and_penalties(name):
    """By hand: the mean cross-entropy, the L1 norm of the map behind the encoder, the error of the neural memory."""
    config = replace(CONFIG, cell=name, task="same-different")
    task = build_task(config)
    model = build_model(config, task).double()
    network = model.network
    network.norm.gain.data.fill_(0.1)
    batch = task.batch(8, 0, 0)
    scenes = batch.inputs._replace(images=batch.inputs.images.double())
    torch.manual_seed(0)
    expected = cross_entropy(network(scenes.images, scenes.objects), scenes.labels)
    without = expected.item()
    if network.sparse is not None:
        expected = expected + sum(weight.abs() for weight in network.sparse.linear.weight.flatten())
    if isinstance(network, MNM):
        expected = expected + network.penalty()
    assert (expected.item() > without) == (name in ("corelnet-l1", "esbn-l1", "mnm"))
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad(expected, weights, allow_unused=True)
    torch.manual_seed(0)
    penalised = [part for part in model.modules() if isinstance(part, HasPenalty)]
    loss, state, accuracy = backpropagate(model, task, batch._replace(inputs=scenes), None, penalised=penalised)
    assert loss.item() == pytest.approx(without, rel=1e-12)  # the reported loss has no penalties
    assert (state, accuracy) == ((), None)
    for weight, gradient in zip(weights, gradients, strict=True):
        assert weight.grad is None if gradient is None else torch.allclose(weight.grad, gradient, rtol=0, atol=ROUNDING)


@representatives("corelnet", "abstractor")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_trains_and_loads(name, tmp_path):
    config = replace(CONFIG, cell=name, task="same-different", steps=2, batch_size=6)
    before = build_model(config, build_task(config)).state_dict()
    result = run(config, tmp_path)
    model, task, again = load_model(result.folder)
    assert isinstance(model, SingleStepModel)
    assert not model.training
    assert (type(model.network), again) == (type(build_model(config, task).network), config)
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert any(not key.startswith("network.encoder.") for key in changed)
    assert "random" not in name or not any(key.startswith("network.encoder.") for key in changed)
    batches = [task.batch(6, config.seed, number, "test") for number in range(config.evaluate_batches)]
    assert evaluate(model, task, batches) == {"loss": result.loss, **result.scores}


@representatives("corelnet-same-different", "transformer-relational-game")
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("cell", ["corelnet", "esbn", "transformer"])
def test_every_task_can_be_trained(name, cell, tmp_path):
    config = replace(CONFIG, task=name, cell=cell, steps=1, batch_size=6, evaluate_batches=1)
    result = run(config, tmp_path)
    task = build_task(config)
    assert result.baseline == pytest.approx(log(task.relational.choices))
    batch = task.batch(6, config.seed, 0, "test")
    model = load_model(result.folder)[0]
    with torch.no_grad():
        logits = model.network(batch.inputs.images, batch.inputs.objects)
    assert result.scores["accuracy"] == pytest.approx((logits.argmax(1) == batch.inputs.labels).float().mean().item())
    assert result.loss == pytest.approx(cross_entropy(logits, batch.inputs.labels).item(), rel=1e-5)


@representatives("corelnet-options0", "corelnet-mix-options1")
@pytest.mark.parametrize(
    ("cell", "options"),
    [("corelnet", {}), ("corelnet-mix", {}), ("esbn-l1", {"l1": 0.5}), ("mnm", {"segmented": True}), ("ntm", {})],
)
def test_an_interrupted_run_ends_with_the_same_bytes(cell, options, tmp_path):
    config = replace(CONFIG, cell=cell, cell_options=options)
    run(config, tmp_path / "straight")
    with pytest.raises(Crash):
        run(config, tmp_path / "resumed", callbacks=[crash_at(5)])
    assert run(config, tmp_path / "resumed", resume=True).steps == 6
    assert artefacts(config, tmp_path / "resumed") == artefacts(config, tmp_path / "straight")


@SLOW
def test_same_different_generalises_to_unseen_shapes(tmp_path):
    config = replace(CONFIG, task="same-different", steps=80, batch_size=32, evaluate_every=80)
    model, task, _ = load_model(run(config, tmp_path).folder)
    scores = {split: evaluate(model, task, [task.batch(500, 1, 0, split)]) for split in ("validation", "test")}
    assert scores["validation"]["accuracy"] == 1.0
    assert scores["test"]["accuracy"] > 0.95
    pools = [{*task.relational.pool(split).tolist()} for split in ("validation", "test")]
    assert (len(pools[0]), len(pools[1]), pools[0] & pools[1]) == (2, 98, set())


def test_one_network_is_evaluated_on_several_tasks():
    tasks = {m: RelationalSequence(SameDifferent(m=m)) for m in (0, 50, 98)}
    model = SingleStepModel(CoRelNet(tasks[0].relational))
    found = evaluate_tasks(model, tasks, sequences=20, batches=2, split="test")
    for m, task in tasks.items():
        assert found[m] == evaluate(model, task, [task.batch(20, 0, number, "test") for number in range(2)])


def test_another_seed_gives_other_weights_and_problems(tmp_path):
    runs = [run(replace(CONFIG, seed=seed, steps=1), tmp_path / str(seed)) for seed in (0, 1)]
    weights = [load_model(result.folder)[0].state_dict()["network.encoder.dense.0.weight"] for result in runs]
    assert not torch.equal(*weights)


# Errors.


def config_error(**settings):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (its words are looked at)
        RunConfig(**{"name": "try", "task": "rmts", "cell": "corelnet", **settings})
    return str(error.value)


def test_cells_and_relational_networks_are_distinguished():
    words = config_error(cell="gru")
    assert words.startswith("cell is 'gru', a cell, which learns the tasks flipflop, copy, ")
    assert "The task 'rmts' is learned by a relational network: corelnet, corelnet-printed, " in words
    assert "same-different" not in words
    words = config_error(task="copy")
    assert words.startswith("cell is 'corelnet', a relational network, which learns the tasks same-different, rmts, ")
    assert "The task 'copy' is learned by a cell: elman, gru, " in words
    assert "no registered relational network. Did you mean 'predinet'?" in config_error(cell="predynet")
    assert "Did you mean 'rmts'?" in config_error(task="rmtz")
    for task in ("rmts", "copy"):  # these names are both
        for name in ("lstm", "ntm"):
            RunConfig("try", task, cell=name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden_size", 65), ("embedding", 8), ("readout_bias", False), ("fixed_readout", 4.0), ("truncate", 5)],
)
def test_settings_without_effect_on_a_relational_network_are_refused(name, value):
    default = next(each.default for each in fields(RunConfig) if each.name == name)
    assert f"{name} is for recurrent cells, but the task 'rmts' is relational: leave it at {default}." in config_error(
        **{name: value}
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"task_options": {"m": 96}}, "RMTS has up to 5 different shapes, but m = 96 leaves 4 of 100 to train with"),
        ({"task_options": {"m": 3}}, "only m = 3 are held out. Hold out 5 to 95, or none"),
        ({"task_options": {"n": 3}}, "The task 'rmts' has no option 'n'.*m = 95, shape_seed = 0, spurious = 'nothing'"),
        ({"task_options": {"spurious": "color"}}, "'nothing' or 'colour' or 'mirror' or 'separated', but is 'color'"),
        ({"task": "relational-game", "task_options": {"rule": "betwen"}}, "no rule 'betwen'. Did you mean 'between'"),
        ({"cell_options": {"segmnted": True}}, "The relational network 'corelnet' has no option 'segmnted'. Did you "
                                               "mean 'segmented'.*hidden = 256, .*trained_encoder = True, l1 = None"),
        ({"cell_options": {"l1": "much"}}, "Option 'l1' .* must be a number or None, but is 'much'"),
        ({"cell_options": {"l1": 0.0}}, "The strength of an L1 penalty must be above 0"),
        ({"task": "same-different", "cell_options": {"segmented": True}}, "this problem has no segments"),
        ({"cell": "mnm", "cell_options": {"cell": "lstm"}}, "'mnm' has no option 'cell'"),
        ({"orthogonal_learning_rate": 0.1}, "orthogonal and unitary matrices, of which 'corelnet' has none"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_before_work_starts(settings, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        run(replace(CONFIG, **settings), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_images_too_small_for_the_encoder_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(RMTS, "height", 7)
    with pytest.raises(ValueError, match="needs at least 8 x 8 pixels, but images are 7 x 32; enlarge them"):
        run(CONFIG, tmp_path)


@pytest.mark.parametrize(
    "look",
    [
        lambda model, xs: ms.Dynamics(model.cell),
        lambda model, xs: ms.record_tape(model, xs),
        lambda model, xs: ms.find_variables(model),
        lambda model, xs: ms.spectrum(model.cell),
        lambda model, xs: ms.gradient_norms(model.cell, xs, torch.sum),
        lambda model, xs: fit_readout(model, xs, xs),
        lambda model, xs: model.linear_readout,
    ],
)
def test_lenses_of_recurrent_cells_explain_why_they_do_not_apply(look):
    words = "This model is a relational network, a CoRelNet: it answers a problem in one step and has no "
    with pytest.raises(TypeError, match=words):
        look(build_model(CONFIG, build_task(CONFIG)), torch.zeros(4, 3, 2))


def test_a_relational_model_is_refused_as_a_cell():
    model = build_model(CONFIG, build_task(CONFIG))
    for look in (ms.Dynamics, ms.spectrum, ms.energy_descent):
        with pytest.raises(TypeError, match="pass the cell itself"):
            look(model)


def test_other_missing_attributes_of_a_solver_raise_as_usual():
    solver = build_model(CONFIG, build_task(CONFIG))
    assert not hasattr(solver, "weight")
    assert isinstance(solver, Model)
    assert solver.network is solver.get_submodule("network")


# Configuration files, command line and page.


def test_options_of_networks_are_known_with_their_defaults():
    handed_on = {"segmented": False, "trained_encoder": True, "l1": None}
    for name, build in MODELS.items():
        known = {key: each.default for key, each in options_of(build).items()}
        assert {*handed_on} <= {*known}
        assert {key: known[key] for key in handed_on} == handed_on | {
            key: value for key, value in getattr(build, "keywords", {}).items() if key in handed_on
        }, name
    assert options_of(MODELS["corelnet-printed"])["causal"].default is False
    assert options_of(MODELS["ntm"])["cell"].default == "ntm"
    assert "cell" not in options_of(MODELS["mnm"])
    assert "problem" not in options_of(CoRelNet)


def test_options_at_their_defaults_do_not_change_the_hash():
    written = {"segmented": False, "trained_encoder": True, "hidden": 256, "similarity": "symmetric"}
    assert replace(CONFIG, cell_options=written, task_options={"m": 95}).hash == CONFIG.hash
    assert replace(CONFIG, cell_options={"trained_encoder": False}).hash != CONFIG.hash
    random = replace(CONFIG, cell="corelnet-random")
    assert replace(random, cell_options={"trained_encoder": False}).hash == random.hash
    assert replace(random, cell_options={"trained_encoder": True}).hash != random.hash
    assert replace(CONFIG, cell="corelnet-l1", cell_options={"l1": 1}).hash == replace(CONFIG, cell="corelnet-l1").hash
    assert replace(CONFIG, task_options={"m": 94}).hash != CONFIG.hash


def test_the_hash_stays_the_same_between_versions():
    assert RunConfig("try", "rmts", cell="corelnet").hash == "a473c35343"


def test_the_config_file_omits_hidden_size(tmp_path):
    config = replace(CONFIG, cell_options={"segmented": True, "l1": 2.0}, task_options={"spurious": "colour"})
    text = config.to_toml()
    assert not {"hidden_size", "embedding", "readout_bias", "fixed_readout", "truncate"} & {*tomllib.loads(text)}
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert RunConfig.from_toml(path) == config
    assert RunConfig.from_toml(path).hash == config.hash


# The command line and the page.

TINY = ["--steps", "4", "--evaluate-every", "2", "--evaluate-batches", "1", "--batch-size", "6"]


def text_of(page):
    content = sub(r"(?s)<(style|script).*?</\1>", " ", Path(page).read_text(encoding="utf-8"))
    return " ".join(unescape(sub(r"<[^>]+>", " ", content)).split())


@SLOW
def test_train_and_inspect_from_the_command_line(tmp_path, capsys):
    words = ["train", "--task", "identity-rules", "--cell", "corelnet", "--cell-options", "segmented", "True", *TINY]
    assert main([*words, "--root", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "4 steps" in output
    assert f"by guessing {log(4):.3e}; accuracy " in output
    assert main([*words, "--root", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    config = RunFolder(Path(result["folder"])).read_config()
    recipe = PRESETS["rmts"]
    assert (config.learning_rate, config.optimiser, config.clip) == (recipe.learning_rate, "adam", None)
    assert (config.task_options, config.cell_options) == ({}, {"segmented": True})
    assert main(["inspect", result["folder"], "--json"]) == 0
    looked = json.loads(capsys.readouterr().out)
    assert {*looked} == {"network", "summary", "page", "accuracy"}
    text = text_of(looked["page"])
    assert looked["summary"] in text
    assert "Guessing reaches 25.0%" in text
    assert "identity-rules" in text
    assert "units" not in text.split("How this page was made")[0]
    assert "reached by guessing" in text
    assert "without memory" not in text
    assert "webb2021" in text
    assert main(["inspect", result["folder"], "--input", "0"]) == 2
    assert "A constant input is for fixed points, and none are searched for" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_the_page_shows_the_measured_accuracies(tmp_path):
    config = replace(CONFIG, task="relational-game", task_options={"rule": "colour/shape"}, steps=1)
    folder = run(config, tmp_path).folder
    looked = inspect_run(folder, options=InspectionOptions(progress=False))
    page = looked.save()
    model, task, _ = load_model(folder)
    seen = looked.problems
    for split, found in (("test", seen.unseen), ("validation", seen.seen)):
        batches = [task.batch(100, config.seed, number, split) for number in range(10)]
        assert evaluate(model, task, batches)["accuracy"] == found
    assert torch.equal(seen.answers, model(seen.scenes)[0].argmax(-1)[0])
    assert looked.fixed_points is None
    assert f"{seen.unseen:.1%} of 1,000 problems with" in text_of(page)
    assert f"and {seen.seen:.1%} of as many new problems" in text_of(page)
    panels = [axes.get_title("left") for axes in seen.figure().axes if axes.get_title("left")]
    assert len(panels) == 6
    pairs = [title.removeprefix("right: ").split("\nanswered: ") for title in panels]
    wrong = [task.relational.answers[label] for label in seen.scenes.labels[seen.answers != seen.scenes.labels]]
    assert [right for right, answer in pairs if right != answer] == wrong[:3]


@pytest.mark.parametrize(
    ("words", "task", "base"),
    [
        (["--task", "rmts3"], "rmts3", "rmts"),
        (["--task=comparison", "--cell", "corelnet-diff"], "comparison", "rmts"),
        (["rmts", "--task", "identity-rules"], "identity-rules", "rmts"),
        (["rmts"], "rmts", "rmts"),
        (["--task", "copy"], "copy", "flipflop"),
        ([], "flipflop", "flipflop"),
    ],
)
def test_a_relational_task_uses_its_own_preset(words, task, base):
    config = _parse(["train", *words]).run_config
    assert (config.task, config.learning_rate) == (task, PRESETS[base].learning_rate)
    assert config.task_options == (PRESETS[base].task_options if task == base else {})


def test_networks_are_listed(capsys):
    assert main(["list", "networks", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == NETWORKS
    assert main(["list", "tasks", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["identity-rules"]["baseline"] == log(4)
    assert rows["identity-rules"]["options"] == asdict(registry.tasks.load("identity-rules")())
    assert "relational" in rows["identity-rules"]["tags"]
    assert main(["list", "tasks"]) == 0
    assert "m 95, shape_seed 0, spurious nothing: loss by guessing 0.693" in capsys.readouterr().out
    assert main(["list", "presets"]) == 0
    assert "corelnet on rmts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "rmts", "--cell", "gru"], "is learned by a relational network: corelnet"),
        (["--task", "copy", "--cell", "corelnet"], "is learned by a cell: elman"),
        (["--task", "rmts", "--hidden-size", "128"], "hidden_size is for recurrent cells"),
        (["--task", "rmts", "--truncate", "3"], "truncate is for recurrent cells"),
        (["--task", "rmts", "--task-options", "m", "97"], "m = 97 leaves 3 of 100 to train with"),
    ],
)
def test_wrong_requests_end_with_an_error_message(words, message, tmp_path, capsys):
    try:
        status = main(["train", *words, "--root", str(tmp_path)])
    except SystemExit as stop:  # raised by tyro
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    assert message in " ".join((captured.err + captured.out).replace("│", " ").split())


def test_a_cell_inside_a_network_can_be_analysed():
    """The reader of objects is a cell like any other."""
    config = replace(CONFIG, cell="lstm")
    model = build_model(config, build_task(config))
    assert ms.Dynamics(model.network.cell).size == 2 * 512
    assert ms.Dynamics(GRU(3, 4)).size == 4
