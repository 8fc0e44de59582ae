"""From the words on the command line to a command, and from an error to a sentence."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Union, get_args

from mnemoscope import registry
from mnemoscope.base.distributed import OtherRankError, ProcessRank, process_rank
from mnemoscope.base.version import __version__
from mnemoscope.cli.citing import Cite
from mnemoscope.cli.commands import Demo, Inspect, List, RunStudy, Train
from mnemoscope.cli.sweeping import RunSweep
from mnemoscope.cli.tables import Runs, Scoreboard, Studies
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.run_config import Log, defer_validation

DESCRIPTION = """Builds recurrent networks, teaches them memory tasks, and shows what they remember.

    mnemoscope demo                            train a 3-bit flip-flop, find its fixed points, write a page
    mnemoscope train flipflop --cell gru       train; a preset, then anything that differs from it
    mnemoscope inspect runs/flipflop/<hash>    look at a trained run
    mnemoscope inspect net.pt --network gru    look at the weights of your own torch.nn.GRU
    mnemoscope sweep flipflop --over hidden_size=32,64    train each of several, and compare
    mnemoscope cite runs/flipflop/<hash>       BibTeX of everything that a run or a study used

Each command has a --help of its own; `mnemoscope --version` tells the version. `mnemoscope --plugin mine.py COMMAND`
knows the cells, tasks, lenses and studies of a file or module of yours as well."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for a failed run, 2 for a wrong request, 130 after Ctrl-C."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where an error can be caught, and not when Python ends
    except BrokenPipeError:  # whoever read us, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as after SIGPIPE


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"mnemoscope {__version__}")
        return 0
    who, command = "mnemoscope", None
    try:
        here = process_rank()
        who += f" ({here})" if here.world_size > 1 else ""
        with _heard_once(here):
            command = _parse(_with_plugins(words))
            _check_alone(command, here)
        return command.run()
    except BrokenPipeError:
        raise
    except OtherRankError:
        return 0  # torchrun names the process that failed, which this one did not
    except KeyboardInterrupt as stop:
        kept = "Stopped. What is finished is kept: the same command with --resume runs the rest."
        several = isinstance(command, RunStudy | RunSweep)
        print(f"\n{str(stop) or (kept if several else 'Stopped.')}", file=sys.stderr)
        return 130
    except (ValueError, LookupError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        if os.environ.get("MNEMOSCOPE_TRACEBACK"):
            raise
        message = error.args[0] if isinstance(error, KeyError) and " " in str(error) else error
        print(f"{who}: {message or type(error).__name__}", file=sys.stderr)
        return 1 if isinstance(error, ArithmeticError | RuntimeError) else 2


@contextmanager
def _heard_once(here: ProcessRank) -> Iterator[None]:
    """What is wrong with a request is wrong in all processes: one of each machine says so."""
    if here.local_rank == 0:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            yield
        except (ValueError, LookupError, OSError, ImportError) as error:
            raise OtherRankError("as the first process of this machine says") from error


def _check_alone(command: Any, here: ProcessRank) -> None:
    if here.world_size > 1 and not isinstance(command, Train):
        name = {RunStudy: "study", RunSweep: "sweep"}.get(type(command), type(command).__name__.lower())
        raise ValueError(
            f"Of several processes (torchrun) one model is trained: that is `mnemoscope train`. `mnemoscope {name}` "
            f"would do the same in each of {here.world_size}; call it without torchrun. A study divides its trials "
            f"itself: --engine."
        )


def _with_plugins(words: list[str]) -> list[str]:
    """The words after those that name plugins, which are imported."""
    while words and words[0].partition("=")[0] == "--plugin":
        flag, has_value, value = words[0].partition("=")
        if not has_value and len(words) < 2:
            raise ValueError(f"{flag} takes a module or a .py file, before the command.")
        registry.use_plugin(value if has_value else words[1])
        words = words[1:] if has_value else words[2:]
    if "--plugin" in words:
        raise ValueError("--plugin stands before the command: mnemoscope --plugin mine.py train ...")
    return words


def _parse(words: list[str]) -> Any:
    try:
        import tyro
    except ImportError as error:
        raise ImportError("The command line needs tyro: pip install 'mnemoscope[cli]'.") from error
    asked = shlex.join(["mnemoscope", *words])
    base, root, words = _base(words)

    def command(name: str, kind: type, **more: Any) -> Any:
        # the list of commands shows their first lines; `mnemoscope COMMAND --help` the whole docstring
        first = None if words[:1] == [name] else (kind.__doc__ or "").partition("\n")[0]
        return tyro.conf.subcommand(name, description=first, prefix_name=False, **more)

    # the options of task and cell are added to those of the base, so they are parsed without a default
    plain = replace(base, task_options={}, cell_options={})
    train, sweep = Train(plain, root), RunSweep(plain)
    kinds = Union[  # noqa: UP007
        Annotated[Demo, command("demo", Demo)],
        Annotated[Train, command("train", Train, default=train)],
        Annotated[RunSweep, command("sweep", RunSweep, default=sweep)],
        Annotated[Inspect, command("inspect", Inspect)],
        Annotated[List, command("list", List)],
        Annotated[RunStudy, command("study", RunStudy)],
        Annotated[Studies, command("studies", Studies)],
        Annotated[Scoreboard, command("scoreboard", Scoreboard)],
        Annotated[Runs, command("runs", Runs)],
        Annotated[Cite, command("cite", Cite)],
    ]
    with defer_validation():  # in words of our own
        parsed: Any = tyro.cli(
            kinds,  # pyright: ignore[reportArgumentType]: tyro's overloads do not know of unions
            args=words or ["--help"],
            prog="mnemoscope",
            description=DESCRIPTION,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        )
    if isinstance(parsed, RunSweep):
        parsed = replace(parsed, command=asked)
    if isinstance(parsed, Train | RunSweep):
        parsed = replace(parsed, run_config=_with_options(base, parsed.run_config))
    return parsed


def _base(words: list[str]) -> tuple[RunConfig, Path, list[str]]:
    """The preset or the TOML file named after `train` or `sweep`, the folder of runs it belongs to, and the rest."""
    task, root = _task(words), Path("runs")
    relational = task in registry.tasks and registry.is_relational(task)  # no recipe or cell of others would suit it
    base = PRESETS["rmts" if relational else "flipflop"]
    places = _names(words) if words[:1] in (["train"], ["sweep"]) else []
    if not places:
        return replace(base, name=task) if task in registry.tasks else base, root, words
    if len(places) > 1:
        given = " and ".join(repr(words[place]) for place in places)
        raise ValueError(f"{words[0]} takes one preset or .toml file, but got {given}.")
    name = words[places[0]]
    if name in PRESETS:
        base = PRESETS[name]
    elif name.endswith(".toml"):
        if not Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}.")
        base = RunConfig.from_toml(Path(name))
        root = _root(Path(name), base.name) or root
    else:
        hint = " The options of a task or a cell come in pairs of name and value." if "-options" in str(words) else ""
        raise ValueError(f"{name!r} is neither a preset ({', '.join(PRESETS)}) nor a .toml file.{hint}")
    return base, root, [word for place, word in enumerate(words) if place != places[0]]


def _task(words: list[str]) -> str:
    """The task that is asked for, "" if none is."""
    pairs = [word.partition("=")[::2] for word in words]
    given = [value or after for (word, value), after in zip(pairs, [*words[1:], ""], strict=False) if word == "--task"]
    return given[-1] if given else ""


def _names(words: list[str]) -> list[int]:
    """Where among the words of `train` or `sweep` those stand that are neither an option nor the value of one."""
    plain = [each for kind in (Train, RunSweep, RunConfig) for each in fields(kind) if isinstance(each.default, bool)]
    flags = {"h", "help", *(f"no_{each.name}" if each.default else each.name for each in plain)}
    places, at = [], 1
    while at < len(words):
        option = words[at].lstrip("-").replace("-", "_")
        at += 1
        if not words[at - 1].startswith("-"):
            places.append(at - 1)
        elif option in ("over", "seeds") and words[0] == "sweep":  # as many values as there are
            while at < len(words) and not words[at].startswith("-"):
                at += 1
        elif option in ("task_options", "cell_options", "engine_options"):  # pairs of name and value
            while at + 1 < len(words) and not words[at].startswith("-") and not words[at + 1].startswith("--"):
                at += 2
        elif option == "log":  # as many names as follow
            while at < len(words) and words[at] in get_args(Log):
                at += 1
        elif "=" not in option and option not in flags:
            at += 1
    return places


def _root(file: Path, name: str) -> Path | None:
    """The folder of runs in which `file` is the configuration of one: --resume goes on where it lies."""
    folder = file.parent
    is_run = file.name == "config.toml" and folder.parent.name == name and re.fullmatch("[0-9a-f]{10}", folder.name)
    return folder.parent.parent if is_run else None


def _with_options(base: RunConfig, given: RunConfig) -> RunConfig:
    """The options of the base, unless another task or cell was chosen, with the given ones over them."""
    task = base.task_options if given.task == base.task else {}
    cell = base.cell_options if given.cell == base.cell else {}
    return replace(given, task_options=task | given.task_options, cell_options=cell | given.cell_options)
