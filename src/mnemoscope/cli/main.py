"""From the words on the command line to a command, and from an error to a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Union

from mnemoscope import __version__
from mnemoscope.cli.commands import Demo, Inspect, List, RunStudy, Studies, Train
from mnemoscope.config import PRESETS, RunConfig

DESCRIPTION = """Builds recurrent networks, teaches them memory tasks, and shows what they remember.

    mnemoscope demo                            train a 3-bit flip-flop, find its fixed points, write a page
    mnemoscope train flipflop --cell gru       train; a preset, then anything that differs from it
    mnemoscope inspect runs/flipflop/<hash>    look at a trained run
    mnemoscope inspect net.pt --network gru    look at the weights of your own torch.nn.GRU

Each command has a --help of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for a failed run, 2 for a wrong request, 130 after Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        print(f"mnemoscope {__version__}")
        return 0
    try:
        return _parse(words).run()
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or 'Stopped.'}", file=sys.stderr)
        return 130
    except (ValueError, LookupError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        if os.environ.get("MNEMOSCOPE_TRACEBACK"):
            raise
        message = error.args[0] if isinstance(error, KeyError) and " " in str(error) else error
        print(f"mnemoscope: {message or type(error).__name__}", file=sys.stderr)
        return 1 if isinstance(error, ArithmeticError | RuntimeError) else 2


def _parse(words: list[str]) -> Any:
    try:
        import tyro
    except ImportError as error:
        raise ImportError("The command line needs tyro: pip install 'mnemoscope[cli]'.") from error
    base, root, words = _base(words)

    def command(name: str, kind: type, **more: Any) -> Any:
        # the list of commands shows their first lines; `mnemoscope COMMAND --help` the whole docstring
        first = None if words[:1] == [name] else (kind.__doc__ or "").partition("\n")[0]
        return tyro.conf.subcommand(name, description=first, prefix_name=False, **more)

    # the options of task and cell are added to those of the base, so they are parsed without a default
    train = Train(replace(base, task_options={}, cell_options={}), root)
    kinds = Union[  # noqa: UP007
        Annotated[Demo, command("demo", Demo)],
        Annotated[Train, command("train", Train, default=train)],
        Annotated[Inspect, command("inspect", Inspect)],
        Annotated[List, command("list", List)],
        Annotated[RunStudy, command("study", RunStudy)],
        Annotated[Studies, command("studies", Studies)],
    ]
    parsed: Any = tyro.cli(
        kinds,  # pyright: ignore[reportArgumentType]: tyro's overloads do not know of unions
        args=words or ["--help"],
        prog="mnemoscope",
        description=DESCRIPTION,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return replace(parsed, run_config=_with_options(base, parsed.run_config)) if isinstance(parsed, Train) else parsed


def _base(words: list[str]) -> tuple[RunConfig, Path, list[str]]:
    """The preset or the TOML file named after `train`, the folder of runs it belongs to, and the words without it."""
    base, root = PRESETS["flipflop"], Path("runs")
    if words[:1] != ["train"] or len(words) < 2 or words[1].startswith("-"):
        return base, root, words
    name = words[1]
    if name in PRESETS:
        base = PRESETS[name]
    elif name.endswith(".toml"):
        if not Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}.")
        base = RunConfig.from_toml(Path(name))
        folder = Path(name).parent
        if (folder.parent.name, folder.name) == (base.name, base.hash):
            root = folder.parent.parent  # the configuration of a run: --resume goes on where it lies
    else:
        raise ValueError(f"{name!r} is neither a preset ({', '.join(PRESETS)}) nor a .toml file.")
    return base, root, [words[0], *words[2:]]


def _with_options(base: RunConfig, given: RunConfig) -> RunConfig:
    """The options of the base, unless another task or cell was chosen, with the given ones over them."""
    task = base.task_options if given.task == base.task else {}
    cell = base.cell_options if given.cell == base.cell else {}
    return replace(given, task_options=task | given.task_options, cell_options=cell | given.cell_options)
