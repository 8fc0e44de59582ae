"""The commands: each a dataclass of its arguments, whose docstrings are its help. No torch at import."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional

from mnemoscope import registry
from mnemoscope.base.distributed import process_rank
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.options import Option

if TYPE_CHECKING:
    from tyro.conf import Positional

    from mnemoscope.engines import Engine
    from mnemoscope.inspection import Inspection, InspectionOptions
else:
    try:
        from tyro.conf import Positional
    except ImportError:  # main says what to install
        Positional = Optional


@dataclass(frozen=True)
class Demo:
    """Train a 3-bit flip-flop network, find all its fixed points, and write its page.

    The first thing to try: it takes a minute or two on two cores, prints what was found, and where the page is.
    """

    cell: Literal["elman", "gru", "lstm"] = "elman"
    """Recurrent cell."""
    hidden_size: int = 64
    """Number of units."""
    seed: int = 0
    """Seed of the initial weights and of the batches."""
    root: Path = Path("runs")
    """Folder of all runs. A finished demo is not trained again."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.inspection import InspectionOptions, inspect_run
        from mnemoscope.training import train

        base = PRESETS["flipflop"]
        config = replace(base, name="demo", cell=self.cell, hidden_size=self.hidden_size, seed=self.seed)
        trained = train(config, self.root, resume=True, progress=not self.json)
        looked = inspect_run(trained.folder, options=InspectionOptions(progress=not self.json))
        facts = {"folder": str(trained.folder), "loss": trained.loss, "seconds": trained.seconds, **trained.scores}
        _tell(looked, facts, self.json)
        return 0


@dataclass(frozen=True)
class Train:
    """Train a network on a memory task, or a relational network on a relational one.

    `mnemoscope train [PRESET | FILE.toml] [options]`, in any order: every option has the value of the preset (flipflop
    if none is named, or rmts if the task is relational) or of the file, unless given. Runs live in
    <root>/<name>/<hash>; finished ones are not repeated.

        mnemoscope train flipflop --cell gru --hidden-size 128
        mnemoscope train copy --task-options delay 100 --seed 1
        mnemoscope train runs/flipflop/0123456789/config.toml --resume

    Several GPUs or machines train one model, with the batch of the configuration divided among them:

        torchrun --nproc-per-node 4 -m mnemoscope train copy --device cuda --batch-size 256

    A relational task holds shapes out of training (task option m), with which its network is tested; `mnemoscope list
    networks` shows what learns it. The preset rmts is the published recipe of four tasks: Adam with a rate of 5e-4,
    5,000 batches of 96 problems. Others were published with other batches, to be given: rmts3 192, same-different-6
    384, identity-rules-4 224, relational-game 2,500 of 32.

        mnemoscope train --task identity-rules --cell esbn --task-options m 50
        mnemoscope train --task rmts3 --batch-size 192
        mnemoscope train --task relational-game --task-options rule between --steps 2500 --batch-size 32
    """

    run_config: RunConfig
    root: Path = Path("runs")
    """Folder of all runs."""
    resume: bool = False
    """Go on with an interrupted run, to the same weights as without the interruption if --threads is the same."""
    overwrite: bool = False
    """Start again from nothing, whatever is there."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.training import build_task, train

        result = train(self.run_config, self.root, resume=self.resume, overwrite=self.overwrite, progress=not self.json)
        if process_rank().rank:
            return 0  # the first process tells
        task = build_task(self.run_config)
        if self.json:
            content = {"folder": str(result.folder), **result.as_json(), "trivial": task.uninformed_scores()}
            print(json.dumps(content, indent=2))
            return 0
        scores = ", ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
        scores += _after("; ", task.uninformed_summary())
        known = " (finished before)" if result.cached else f" in {result.seconds:.0f} s"
        guess = f"{task.baseline_label} {result.baseline:.3e}"
        print(f"{result.steps} steps{known}: loss {result.loss:.3e}, {guess}; {scores}.")
        print(f"Look at it: mnemoscope inspect {result.folder}")
        return 0


@dataclass(frozen=True)
class Inspect:
    """Find the fixed points of a network and write its page; of one that attends to its past, show what it attends to
    and keeps; of a relational one, what it answers.

    The network is the folder of a run, or a file of weights: the `.safetensors` or `.pt` state dict of a
    torch.nn.RNN, GRU or LSTM, alone or inside a larger model. Code stored in a file is never run.

        mnemoscope inspect runs/flipflop/0123456789
        mnemoscope inspect my_network.pt --network gru --input 0 0 1
    """

    path: Positional[Path]
    """Folder of a run, or file of weights."""
    network: Literal["rnn", "gru", "lstm"] | None = None
    """Class of the network whose weights the file holds."""
    nonlinearity: Literal["tanh", "relu"] = "tanh"
    """Nonlinearity of a torch.nn.RNN."""
    prefix: str | None = None
    """Prefix of the weights' names, such as `encoder.rnn.`, if the file holds several recurrent networks."""
    input: tuple[float, ...] | None = None
    """Constant input at which to look; zeros by default."""
    starts: int = 64
    """Starts of each wave of the search."""
    seed: int = 0
    """Seed of the search."""
    output: Path | None = None
    """Where to write the page; by default page.html in the folder of a run, or beside a file of weights."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        if not self.path.exists():
            raise FileNotFoundError(f"There is no file or folder {self.path}.")
        looked = self._run_folder() if self.path.is_dir() else self._weights()
        _tell(looked, {"network": str(self.path)}, self.json)
        return 0

    def _run_folder(self) -> Inspection:
        if self.network is not None or self.prefix is not None or self.nonlinearity != "tanh":
            raise ValueError(
                f"{self.path} is the folder of a run, which knows its network; --network, --nonlinearity and --prefix "
                f"are for files of weights."
            )
        from mnemoscope.inspection import inspect_run

        return inspect_run(self.path, page=self.output, options=self._options())

    def _weights(self) -> Inspection:
        if self.network is None:
            raise ValueError(f"{self.path} is a file of weights: say whose by --network rnn, gru or lstm.")
        from mnemoscope.cells import adapt, load_network
        from mnemoscope.inspection import inspect_cell

        network = load_network(self.path, self.network, nonlinearity=self.nonlinearity, prefix=self.prefix)
        title = f"{self.path.name}: {network}" + (f" {self.nonlinearity}" if self.network == "rnn" else "")
        page = self.output or self.path.with_suffix(".html")
        return inspect_cell(adapt(network), title, page, options=self._options())

    def _options(self) -> InspectionOptions:
        from mnemoscope.inspection import InspectionOptions

        return InspectionOptions(self.input, self.starts, self.seed, self._command(), progress=not self.json)

    def _command(self) -> str:
        """These arguments as a command, so that the page can say how it was made."""
        plugins = [word for name in registry.named_plugins() for word in ("--plugin", name)]
        words = ["mnemoscope", *plugins, "inspect", str(self.path)]
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name not in ("path", "json") and value != each.default:
                values = value if isinstance(value, tuple) else (value,)
                words += [f"--{each.name}", *(f"{one:g}" if isinstance(one, float) else str(one) for one in values)]
        return shlex.join(words)


@dataclass(frozen=True)
class List:
    """Show what there is: cells, relational networks, tasks, lenses, studies and presets, one line each with their
    source.

    `mnemoscope list tasks` also shows their options, the loss that is then reached without memory, or by guessing if
    they are relational, and of random bits how many are wrong of those that know nothing.
    """

    what: Positional[Literal["all", "cells", "networks", "tasks", "lenses", "studies", "presets"]] = "all"
    """Which list."""
    json: bool = False
    """Print as JSON: a list of objects with name, summary and source; of all lists, an object with a list for each."""

    def run(self) -> int:
        lists = {
            "cells": registry.cells,
            "networks": registry.networks,
            "tasks": registry.tasks,
            "lenses": registry.lenses,
            "studies": registry.studies,
        }
        rows = {name: [_row(entry) for entry in entries] for name, entries in lists.items()}
        rows["presets"] = [
            {"name": name, "summary": f"{_learner(one)} on {one.task}", "source": "mnemoscope"}
            for name, one in PRESETS.items()
        ]
        told: dict[str, str] = {}
        if self.what == "tasks":
            from mnemoscope.training import task_named  # imports torch, so not for every list

            for row in rows["tasks"]:
                task, options = task_named(row["name"]), asdict(registry.tasks.load(row["name"])())
                row |= {"options": options, "baseline": task.baseline(), "trivial": task.uninformed_scores()}
                reached = f"loss {task.baseline_label} {task.baseline():.3g}"
                told[row["name"]] = reached + _after("; wrong bits ", task.uninformed_summary())
        chosen = rows if self.what == "all" else {self.what: rows[self.what]}
        if self.json:
            print(json.dumps(chosen if self.what == "all" else chosen[self.what], indent=2))
            return 0
        for name, entries in chosen.items():
            print(f"{name}:")
            width = max(16, *(len(entry["name"]) for entry in entries))
            for entry in entries:
                print(f"  {entry['name']:{width}} {entry['summary']}  [{entry['source']}]")
                if "options" in entry:
                    options = ", ".join(f"{name} {value}" for name, value in entry["options"].items())
                    print(f"  {'':{width}} {options}: {told[entry['name']]}")
        return 0


@dataclass(frozen=True)
class RunStudy:
    """Run a study: a published table or figure, measured again and set beside what was published.

    Every trial has a folder, so that an interrupted study goes on where it was.

        mnemoscope study flipflop-cube --preset smoke
        mnemoscope study flipflop-cube --preset cpu --seeds 0 1 2 --resume
        mnemoscope study fisher-table --engine-options max_jobs 4
        mnemoscope study fisher-table --engine ray --engine-options address auto
    """

    name: Positional[str]
    """Name of the study; `mnemoscope studies` lists them."""
    preset: str = "cpu"
    """smoke takes seconds, cpu minutes on two cores; paper comes as near to what was published as we can, most often on
    a GPU. Some studies have more, such as published, the published recipe to the letter: a wrong name lists all."""
    seeds: tuple[int, ...] = ()
    """Seeds to run instead of the preset's own."""
    resume: bool = False
    """Keep the trials that are finished, run the rest."""
    finished_only: bool = False
    """Run nothing; write the table and the page of the trials that are finished."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where trials run. local: a process for each, the cores divided among them, so that one which crashes takes no
    other with it. ray, slurm: on a cluster. here: one after the other in this process."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Of the engine, such as max_jobs 4 (local), address auto (ray), or partition gpu minutes 90 (slurm)."""
    root: Path = Path("runs")
    """Folder of all runs; the study lives in <root>/studies/<name>/<preset>."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        registry.studies[self.name]  # an unknown name is told before torch is loaded
        from mnemoscope.replication import run_study

        chosen = engine_named(self.engine, self.engine_options)
        seeds = self.seeds or None
        result = run_study(
            self.name, self.preset, seeds, self.root,
            resume=self.resume, finished_only=self.finished_only, progress=not self.json, engine=chosen,
        )  # fmt: skip
        if self.json:
            content = {**asdict(result), "folder": str(result.folder), "page": str(result.page)}
            print(json.dumps(content, indent=2))
            return 1 if result.failed else 0
        for row in result.rows:
            print(f"{row.quantity:40} published {row.published:14} here {row.ours:14} {row.verdict:16} {row.remark}")
        print(f"Page: {result.page}")
        for failed in result.failed:
            print(f"Failed: {failed}", file=sys.stderr)
        return 1 if result.failed else 0


def engine_named(name: str, options: dict[str, Option]) -> Engine | None:
    """The engine that was asked for; None: here."""
    from mnemoscope.engines import build_engine

    if name == "here" and options:
        raise ValueError("--engine here has no options: one trial runs after the other.")
    return None if name == "here" else build_engine(name, options)


def _row(entry: registry.Entry) -> dict[str, Any]:
    return {"name": entry.name, "summary": entry.summary, "source": entry.source, "tags": list(entry.tags)}


def _learner(config: RunConfig) -> str:
    return config.cell if registry.is_relational(config.task) else f"{config.cell} {config.hidden_size}"


def _after(mark: str, words: str) -> str:
    return f"{mark}{words}" if words else ""


def _tell(looked: Inspection, facts: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        print(looked.summary())
        print(f"Page: {looked.page.resolve()}")
        return
    content = {**facts, "summary": looked.summary(), "page": str(looked.page.resolve()), **_found(looked)}
    print(json.dumps(content, indent=2))


def _found(looked: Inspection) -> dict[str, Any]:
    """Of a network whose fixed points were looked for, or whose answers."""
    fp, uniform, problems = looked.fixed_points, looked.uniform_fixed_points, looked.problems
    if problems is not None:
        return {"accuracy": {"unseen": problems.unseen, "seen": problems.seen}}
    if uniform is not None:
        return {
            "uniform_fixed_points": len(uniform),
            "unstable": uniform.unstable.tolist(),
            "index_sum": uniform.reduced.index_sum,
        }
    if fp is None or looked.saved is None:
        return {}
    return {
        "points": len(fp),
        "kinds": fp.kind,
        "unstable": fp.unstable.tolist(),
        "q": fp.q.tolist(),
        "index_sum": fp.index_sum,
        "may_be_complete": fp.may_be_complete,
        "slow_points": 0 if fp.slow is None else len(fp.slow),
        "starts": {} if fp.starts is None else {status.name.lower(): n for status, n in fp.starts.counts().items()},
        "fixed_points": str(looked.saved.resolve()),
    }
