"""The entry point: parse the arguments, run the command, and print errors as sentences."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_type_hints

from mnemoscope import registry
from mnemoscope.base.distributed import OtherRankError, ProcessRank, process_rank
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.signals import exit_code
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.terminal import printable
from mnemoscope.base.version import __version__
from mnemoscope.cli.arena import RunArena
from mnemoscope.cli.card import Card
from mnemoscope.cli.cite import Cite
from mnemoscope.cli.command_options import check_option_names, name_options, option_names
from mnemoscope.cli.commands import Demo, RunStudy, Train
from mnemoscope.cli.compare import CompareRuns
from mnemoscope.cli.help_text import DESCRIPTION, asks_for_help, program_help
from mnemoscope.cli.inspections import Inspect
from mnemoscope.cli.lists import List
from mnemoscope.cli.recordings import DescribeRecording, FitRecording
from mnemoscope.cli.replicate import Replicate
from mnemoscope.cli.sweep import RunSweep
from mnemoscope.cli.tables import Runs, Scoreboard, Studies
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.run_config import Log, defer_validation
from mnemoscope.registry.plugins import WITHOUT_PLUGINS

_COMMANDS = {
    "demo": Demo,
    "train": Train,
    "sweep": RunSweep,
    "inspect": Inspect,
    "card": Card,
    "compare": CompareRuns,
    "recording": DescribeRecording,
    "fit": FitRecording,
    "list": List,
    "study": RunStudy,
    "studies": Studies,
    "scoreboard": Scoreboard,
    "replicate": Replicate,
    "arena": RunArena,
    "runs": Runs,
    "cite": Cite,
}
"""The commands by name, in the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status.

    It is 0 after success, 1 for a failed run, 2 for a wrong request, 130 after Ctrl-C and 143 after SIGTERM.
    """
    return _run(list(sys.argv[1:] if argv is None else argv))


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"mnemoscope {__version__}")
        return 0
    program, command = "mnemoscope", None
    try:
        here = process_rank()
        program += f" ({here})" if here.world_size > 1 else ""
        with _print_once(here):
            words_of_command = _with_plugins(words)
            if asks_for_help(words_of_command):
                print(program_help())
                return 0
            command = _parse(words_of_command)
            _check_alone(command, here)
        with _without_clock(command):
            return command.run()
    except BrokenPipeError:
        raise
    except OtherRankError:
        return 0  # another process failed, and torchrun names it
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or 'Stopped.' + _advice(command)}", file=sys.stderr)
        return exit_code(stop)
    except (ValueError, LookupError, OSError, ImportError, ArithmeticError, RuntimeError, MemoryError) as error:
        if os.environ.get("MNEMOSCOPE_TRACEBACK"):
            raise
        message = error.args[0] if isinstance(error, KeyError) and " " in str(error) else error
        if command is not None:
            message = name_options(str(message), type(command))
        if isinstance(error, registry.MissingPluginError):
            message = f"{error.reason} {WITHOUT_PLUGINS}, type:\n{error.command(words)}"
        print(printable(f"{program}: {message or type(error).__name__}"), file=sys.stderr)
        return 1 if isinstance(error, ArithmeticError | RuntimeError | MemoryError) else 2


def _advice(command: Any) -> str:
    """Return how to continue a command of many runs that was stopped."""
    if not isinstance(command, RunStudy | RunSweep | Replicate | RunArena):
        return ""
    again = "the same command" if isinstance(command, Replicate | RunArena) else "the same command with --resume"
    return f" Finished runs are kept; {again} runs the rest."


def _without_clock(command: Any) -> AbstractContextManager[None]:
    """Return a context in which a command that prints JSON does not show the time of slow calls."""
    if not getattr(command, "json", False):
        return nullcontext()
    from mnemoscope.base.progress import without_clock  # imports tqdm

    return without_clock()


@contextmanager
def _print_once(here: ProcessRank) -> Generator[None]:
    """Print only from the first process of each machine: a wrong request is wrong in all of them."""
    if here.local_rank == 0:
        yield
        return
    with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink):
        try:
            yield
        except (ValueError, LookupError, OSError, ImportError) as error:
            raise OtherRankError("the first process of this machine prints the reason") from error


def _check_alone(command: Any, here: ProcessRank) -> None:
    if here.world_size > 1 and not isinstance(command, Train):
        name = next(name for name, kind in _COMMANDS.items() if isinstance(command, kind))
        raise ValueError(
            f"torchrun is for `mnemoscope train`, where several processes train one model. `mnemoscope {name}` "
            f"would do the same in each of {here.world_size} processes; call it without torchrun. A study and a sweep "
            f"run in parallel with --engine."
        )


def _with_plugins(words: list[str]) -> list[str]:
    """Import the plugins named before the command, and return the words after them."""
    while words and words[0].partition("=")[0] == "--plugin":
        flag, has_value, value = words[0].partition("=")
        if not has_value and len(words) < 2:
            raise ValueError(f"{flag} takes a module or a .py file, before the command.")
        registry.use_plugin(value if has_value else words[1])
        words = words[1:] if has_value else words[2:]
    if "--plugin" in words:
        raise ValueError("--plugin comes before the command: mnemoscope --plugin mine.py train ...")
    return words


def _parse(words: list[str]) -> Any:
    tyro = import_extra("tyro", "cli", "The command line needs")
    command_line = shlex.join(["mnemoscope", *words])
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        raise ValueError(
            f"There is no command {words[0]!r}.{did_you_mean(words[0], _COMMANDS)} There are {', '.join(_COMMANDS)}."
        )
    if words and words[0] in _COMMANDS:
        check_option_names(words[0], _COMMANDS[words[0]], words[1:])
    if words[:1] == ["list"] and len(words) > 1 and not words[1].startswith("-"):
        choices = get_args(get_args(get_type_hints(List, include_extras=True)["what"])[0])
        if words[1] not in choices:
            hint = did_you_mean(words[1], choices)
            raise ValueError(f"There is no list {words[1]!r}.{hint} There are {', '.join(choices)}.")
    base, root, words = _base(words)

    def command(name: str, kind: type, **more: Any) -> Any:
        # the list of commands shows first lines; `mnemoscope COMMAND --help` shows the whole docstring
        first = None if words[:1] == [name] else (kind.__doc__ or "").partition("\n")[0]
        return tyro.conf.subcommand(name, description=first, prefix_name=False, **more)

    # parsed without defaults: the given options of task and cell are merged with those of the base below
    plain = replace(base, task_options={}, cell_options={})
    defaults: dict[str, Any] = {"train": {"default": Train(plain, root)}, "sweep": {"default": RunSweep(plain)}}
    kinds = Union[  # noqa: UP007
        tuple(Annotated[kind, command(name, kind, **defaults.get(name, {}))] for name, kind in _COMMANDS.items())
    ]
    with defer_validation():  # tyro would wrap our errors in its own
        parsed: Any = tyro.cli(
            kinds,
            args=words,
            prog="mnemoscope",
            description=DESCRIPTION,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        )
    if isinstance(parsed, RunSweep | RunArena):
        parsed = replace(parsed, command=command_line)
    if isinstance(parsed, Train | RunSweep):
        parsed = replace(parsed, run_config=_with_options(base, parsed.run_config))
    return parsed


def _base(words: list[str]) -> tuple[RunConfig, Path, list[str]]:
    """Return the base configuration of `train` or `sweep`, its folder of all runs, and the other words.

    The base is the preset or the TOML file that the words name, or a default.
    """
    task, root = _task(words), Path("runs")
    relational = task in registry.tasks and registry.is_relational(task)  # it needs a recipe and a network of its kind
    base = PRESETS["rmts" if relational else "flipflop"]
    positions = _names(words) if words[:1] in (["train"], ["sweep"]) else []
    if not positions:
        return replace(base, name=task) if task in registry.tasks else base, root, words
    if len(positions) > 1:
        given = " and ".join(repr(words[position]) for position in positions)
        hint = {"train": " Settings are options: --learning-rate 0.01.", "sweep": " Fields that vary follow --over."}
        hint = hint[words[0]] if "=" in given else ""
        raise ValueError(f"{words[0]} takes one preset or .toml file, but got {given}.{hint}")
    name = words[positions[0]]
    if name in PRESETS:
        base = PRESETS[name]
    elif name.endswith(".toml"):
        if not Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}.")
        base = _read_config(Path(name))
        root = _root(Path(name), base.name) or root
    else:
        pairs = " The options of a task or a cell come in pairs of name and value." if "-options" in str(words) else ""
        is_task = name in registry.tasks
        hint = f" It is a task: use --task {name}." if is_task else did_you_mean(name, PRESETS) + pairs
        raise ValueError(f"{name!r} is neither a preset ({', '.join(PRESETS)}) nor a .toml file.{hint}")
    return base, root, [word for position, word in enumerate(words) if position != positions[0]]


def _read_config(file: Path) -> RunConfig:
    """Return the configuration in a file; an error about the file of a run names its plugins."""
    try:
        return RunConfig.from_toml(file)
    except ValueError:
        if file.name != "config.toml":
            raise
    from mnemoscope.training.run_folder import RunFolder  # imports torch, so only after an error

    return RunFolder(file.parent).read_config()


def _task(words: list[str]) -> str:
    """Return the task that `--task` names; "" without it."""
    pairs = [word.partition("=")[::2] for word in words]
    given = [value or after for (word, value), after in zip(pairs, [*words[1:], ""], strict=False) if word == "--task"]
    return given[-1] if given else ""


def _names(words: list[str]) -> list[int]:
    """Return the positions of the words of `train` or `sweep` that are neither options nor values of options."""
    switches = {"h", *option_names(_COMMANDS[words[0]]).switches}
    positions, at = [], 1
    while at < len(words):
        option = words[at].lstrip("-").replace("_", "-")
        at += 1
        if not words[at - 1].startswith("-"):
            positions.append(at - 1)
        elif option in ("over", "seeds") and words[0] == "sweep":  # any number of values
            while at < len(words) and not words[at].startswith("-"):
                at += 1
        elif option in ("task-options", "cell-options", "engine-options"):  # pairs of name and value
            while at + 1 < len(words) and not words[at].startswith("-") and not words[at + 1].startswith("--"):
                at += 2
        elif option == "log":  # any number of loggers
            first = at
            while at < len(words) and words[at] in get_args(Log):
                at += 1
            if at == first:
                _check_log(words[at] if at < len(words) else "")
        elif "=" not in option and option not in switches:
            at += 1
    return positions


def _check_log(word: str) -> None:
    """Raise if the word after --log is meant as a logger, but is none; it may also be a preset, or another option."""
    if word not in PRESETS and not word.endswith(".toml"):
        found = "no logger is given" if not word or word.startswith("-") else f"{word!r} is none of them"
        known = get_args(Log)
        raise ValueError(f"--log takes loggers, but {found}.{did_you_mean(word, known)} There are {', '.join(known)}.")


def _root(file: Path, name: str) -> Path | None:
    """Return the folder of all runs if `file` is the configuration of a run, so that --resume finds it; else None."""
    folder = file.parent
    is_run = file.name == "config.toml" and folder.parent.name == name and re.fullmatch("[0-9a-f]{10}", folder.name)
    return folder.parent.parent if is_run else None


def _with_options(base: RunConfig, given: RunConfig) -> RunConfig:
    """Return the given configuration with the options of the base, unless its task or cell differs."""
    task = base.task_options if given.task == base.task else {}
    cell = base.cell_options if given.cell == base.cell else {}
    return replace(given, task_options=task | given.task_options, cell_options=cell | given.cell_options)
