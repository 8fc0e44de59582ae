"""The configuration of a run: exact TOML, a hash of what determines the result, clear errors, and no torch."""

import ast
import subprocess
import sys
import tomllib
from dataclasses import MISSING, fields, replace
from inspect import unwrap
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Literal

import pytest
import tyro  # first: a doctest may set builtins._, and then this import fails
from hypothesis import given, settings, strategies as st

from mnemoscope import registry
from mnemoscope.config import PRESETS, RunConfig, run_config as module
from mnemoscope.config.hashing import LATER_DEFAULTS
from mnemoscope.config.options import fit, plain

CONFIG = RunConfig("try", "flipflop")


def changed_to(**settings) -> RunConfig:
    """Do as `replace(CONFIG, ...)` does for users: in the tests, beartype would report a wrong type first."""
    config = object.__new__(RunConfig)
    unwrap(RunConfig.__init__)(config, **{**CONFIG.__dict__, **settings})
    return config


def read_back(config: RunConfig, folder: Path) -> RunConfig:
    path = folder / "config.toml"
    path.write_bytes(config.to_toml().encode())
    return RunConfig.from_toml(path)


def test_importing_the_configuration_imports_no_torch():
    code = "import sys; from mnemoscope.config import PRESETS, RunConfig; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_setting_has_a_help_text():
    """The string below a field is the help text of its flag."""
    tree = ast.parse(Path(module.__file__).read_text())
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "RunConfig").body
    for statement, below in pairwise(body):
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(below, ast.Expr), ast.unparse(statement)
            assert isinstance(below.value, ast.Constant)


def test_a_setting_that_may_be_none_is_none_by_default():
    """TOML has no None: a file omits such a setting, which is exact only if None is the default."""
    for setting in fields(RunConfig):
        if NoneType in plain(module._types()[setting.name]):
            assert setting.default is None, setting.name
        else:
            assert setting.default is not None or setting.default is MISSING


def test_defaults_that_the_hash_omits_are_those_of_the_settings():
    defaults = {setting.name: setting.default for setting in fields(RunConfig)}
    assert {name: defaults[name] for name in LATER_DEFAULTS} == LATER_DEFAULTS


options = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    max_size=4,
)


@settings(deadline=None)  # writes files on a shared disk
@given(
    task_options=options,
    cell_options=options,
    learning_rate=st.floats(min_value=0, max_value=1e30, exclude_min=True),
    clip=st.none() | st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(min_value=0),
)
def test_a_configuration_read_from_its_toml_is_equal(tmp_path_factory, **values):
    config = RunConfig("a-name_1.2", "copy", cell="gru", schedule="cosine", **values)
    again = read_back(config, tmp_path_factory.getbasetemp())
    assert again == config
    assert again.hash == config.hash
    for table in ("task_options", "cell_options"):  # equality is not enough: True == 1 == 1.0
        assert [*map(repr, getattr(again, table).items())] == [*map(repr, getattr(config, table).items())]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_written_and_built(name, tmp_path):
    from mnemoscope.training import build_model, build_task

    config = PRESETS[name]
    assert config.name == name
    assert read_back(config, tmp_path) == config
    task = build_task(config)
    model = build_model(config, task)
    if registry.is_relational(config.task):
        answers = model.network.choices
    elif task.decoded or registry.OWN_READOUT in registry.cells[config.cell].tags:
        answers = model(task.batch(1, 0, 0).inputs)[0].shape[-1]
    else:
        answers = model.readout.out_features
    assert answers == task.output_size


def test_the_hash_changes_with_every_setting_that_determines_the_result():
    without_effect = {"name": "other", "threads": 2, "checkpoint_every": 7, "cuda_graphs": False, "log": ("wandb",)}
    changed = {
        "task": "copy", "task_options": {"bits": 2}, "cell": "gru", "cell_options": {"bias": False}, "hidden_size": 5,
        "embedding": 5, "readout_bias": False, "fixed_readout": 4.0, "curriculum_score": 0.5,
        "optimiser": "rmsprop", "learning_rate": 0.5, "orthogonal_learning_rate": 0.5, "weight_decay": 0.5,
        "smoothing": 0.5, "momentum": 0.5, "schedule": "cosine", "steps": 5, "batch_size": 5, "clip": 0.5,
        "leave_out": 5, "truncate": 5, "evaluate_every": 5, "evaluate_batches": 5,
        "target_loss": 0.5, "target_score": 0.5, "patience": 5, "seed": 5, "device": "cuda",
    }  # fmt: skip
    assert {*without_effect, *changed} == {setting.name for setting in fields(RunConfig)}
    assert all(replace(CONFIG, **{name: value}).hash == CONFIG.hash for name, value in without_effect.items())
    hashes = {replace(CONFIG, **{name: value}).hash for name, value in changed.items()}
    assert len(hashes | {CONFIG.hash}) == len(changed) + 1


def test_options_at_their_defaults_do_not_change_the_hash():
    written = {"bits": 3, "length": 64, "rate": 0.1}
    for number in range(4):
        assert replace(CONFIG, task_options=dict([*written.items()][:number])).hash == CONFIG.hash
    assert replace(CONFIG, cell_options={"nonlinearity": "tanh", "bias": True}).hash == CONFIG.hash
    assert (
        replace(CONFIG, task_options=written | {"length": 65}).hash == replace(CONFIG, task_options={"length": 65}).hash
    )
    assert replace(CONFIG, task_options={"rate": 1}).hash == replace(CONFIG, task_options={"rate": 1.0}).hash
    assert (
        replace(CONFIG, task_options={"bits": 3.0}).hash != CONFIG.hash
    )  # not an integer: refused when the task is built


def test_the_hash_stays_the_same_between_versions():
    """Folders of runs are named by it; if this fails, no stored run is found again."""
    assert CONFIG.hash == "ef49e7b7c6"
    assert CONFIG.folder("runs") == Path("runs/try/ef49e7b7c6")


def test_four_evaluation_batches_are_the_default_of_an_endless_task():
    assert replace(CONFIG, evaluate_batches=4).hash == CONFIG.hash
    text = RunConfig("try", "ptb")
    assert replace(text, evaluate_batches=4).hash != text.hash  # not the whole split


def test_the_place_of_the_data_does_not_enter_the_hash():
    text = RunConfig("try", "ptb", {"length": 300})
    assert replace(text, task_options={"length": 300, "data": "here"}).hash == text.hash
    assert replace(text, task_options={"data": "here"}).hash != text.hash


def test_integers_become_floats_where_only_a_float_fits():
    assert repr(changed_to(learning_rate=1, clip=2)) == repr(replace(CONFIG, learning_rate=1.0, clip=2.0))


def test_the_options_of_the_caller_are_copied():
    options = {"bits": 2}
    config = RunConfig("try", "flipflop", options)
    options["bits"] = 3
    assert config.task_options == {"bits": 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "a/b"}, "name is the name of a folder.*'a/b'"),
        ({"name": ""}, "name is the name of a folder"),
        ({"name": ".."}, "name is the name of a folder"),
        (
            {"task": "flipflip"},
            "task is 'flipflip', which is no registered task. Did you mean 'flipflop'.*flipflop, copy, adding",
        ),
        ({"cell": "ltsm"}, "cell is 'ltsm'.*Did you mean 'lstm'.*If a plugin has it, install that plugin"),
        ({"hidden_size": 0}, "hidden_size must be at least 1 and finite, but is 0"),
        ({"steps": 1.5}, "steps must be an integer, but is 1.5"),
        ({"steps": True}, "steps must be an integer, but is True"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and finite, but is 0.0"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0 and finite"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number, but is nan"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, but is 'fast'"),
        ({"orthogonal_learning_rate": -1.0}, "orthogonal_learning_rate must be above 0"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"truncate": 0}, "truncate must be at least 1"),
        ({"embedding": 0}, "embedding must be at least 1"),
        ({"evaluate_batches": 0}, "evaluate_batches must be at least 1"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        (
            {"weight_decay": 1e21},
            "weight_decay must be at most .*, the larger of 1 and 1 / learning rate, but is 1e\\+21",
        ),
        ({"target_score": 1.01}, "target_score is an accuracy, at least 0 and at most 1, but is 1.01"),
        ({"target_score": -0.1}, "target_score is an accuracy"),
        ({"curriculum_score": 96.0}, "curriculum_score is an accuracy"),
        ({"hidden_size": 2**63}, "hidden_size must be at most 2,147,483,647"),
        ({"steps": 2**64}, "steps must be at most 2,147,483,647"),
        ({"threads": 1_000_000}, "threads must be at most 1,024, but is 1,000,000"),
        ({"learning_rate": 1e300}, r"learning_rate must be at most 1e\+30, but is 1e\+300"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1, but is 1.0"),
        ({"smoothing": -0.1}, "smoothing must be at least 0 and below 1, but is -0.1"),
        ({"optimiser": "sgd"}, "optimiser must be 'adam' or 'adamw' or 'rmsprop', but is 'sgd'"),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda'"),
        ({"task_options": [1]}, r"task_options must be a table of options, but is \[1\]"),
        ({"cell_options": {"a": [1]}}, r"cell_options must be a table of options, each value .*but is \[1\]"),
        ({"cell_options": {"a": float("nan")}}, "each value .*but is nan"),
        ({"log": ("paper",)}, "log must be a list, each item 'tensorboard' or 'wandb', but is 'paper'"),
        ({"log": "wandb"}, "log must be a list, each item 'tensorboard' or 'wandb', but is 'wandb'"),
    ],
)
def test_bad_settings_are_refused_with_a_message(settings, message):
    with pytest.raises(ValueError, match=message):
        changed_to(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\ntask = "copy"\nlearning_rat = 1.0', "sets 'learning_rat'.*Did you mean 'learning_rate'"),
        ('name = "a"\ntask = "copy"\nxyz = 1.0', r"sets 'xyz', which is no setting of a run\. There are name, task"),
        ('name = "a"', "must set task"),
        ("", "must set name and task"),
        ("name = ", "is not a TOML file"),
        ('name = "a"\ntask = "copy"\nsteps = 0', "In .*bad.toml: steps must be at least 1"),
    ],
)
def test_bad_files_are_refused_with_a_message(text, message, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        RunConfig.from_toml(path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match="is not a TOML file"):
        RunConfig.from_toml(path)


def test_a_setting_that_a_file_omits_has_its_default(tmp_path):
    path = tmp_path / "short.toml"
    path.write_text('name = "try"\ntask = "flipflop"\n')
    assert RunConfig.from_toml(path) == CONFIG


def test_the_toml_text_has_plain_values_and_no_none():
    content = tomllib.loads(replace(CONFIG, task_options={"bits": 2, "odd key": 1e-5}).to_toml())
    assert content["task_options"] == {"bits": 2, "odd key": 1e-5}
    assert "clip" not in content


def test_fit_converts_only_where_nothing_else_fits():
    assert repr(fit(1, int | float)) == "1"
    assert repr(fit(1, float | None)) == "1.0"
    assert repr(fit(1, str)) == "'1'"
    assert repr(fit(1, int | str)) == "1"
    assert fit("a", Literal["a"] | int) == "a"
    for wrong in (True, 1.5):
        with pytest.raises(TypeError, match=f"a string, but is {wrong}"):
            fit(wrong, str)
    with pytest.raises(TypeError, match="'1', but is 1"):
        fit(1, Literal["1"])
    with pytest.raises(TypeError, match="true or false, but is 1"):
        fit(1, bool)
    assert (fit("true", bool), fit("False", bool | None), fit("true", bool | str)) == (True, False, "true")
    with pytest.raises(TypeError, match="true or false, but is 'yes'"):
        fit("yes", bool)


def test_the_command_line_changes_single_settings():
    arguments = ["--cell", "gru", "--clip", "None", "--task-options.bits", "2", "--cell-options", "bias", "False"]
    config = tyro.cli(RunConfig, args=arguments, default=PRESETS["flipflop"])
    options = {**PRESETS["flipflop"].task_options, "bits": 2}
    assert config == replace(
        PRESETS["flipflop"], cell="gru", clip=None, task_options=options, cell_options={"bias": False}
    )
    assert config.cell_options["bias"] is False
