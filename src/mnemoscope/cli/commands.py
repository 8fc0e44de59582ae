"""The commands demo, train, inspect, list and study. Importing them does not import torch.

A command is a dataclass of its arguments; tyro shows the docstrings as help.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mnemoscope import registry
from mnemoscope.base.distributed import process_rank
from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.cli.tyro_types import Positional
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.options import Option, options_of, required_options

if TYPE_CHECKING:
    from mnemoscope.engines import Engine
    from mnemoscope.inspection import Inspection, InspectionOptions


DATA = (".npy", ".npz", ".nwb")
"""Endings of files of data, which `inspect` does not take."""


@dataclass(frozen=True)
class Demo:
    """Train a 3-bit flip-flop network, find its fixed points, and write a page about it.

    A good start: it takes a minute or two on two cores, and prints the result and the path of the page.
    """

    cell: Literal["elman", "gru", "lstm"] = "elman"
    """Recurrent cell."""
    hidden_size: int = 64
    """Number of units."""
    seed: int = 0
    """Seed of the initial weights and of the batches."""
    root: Path = Path("runs")
    """Folder of all runs. A demo that has finished is not trained again."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.inspection import InspectionOptions, inspect_run
        from mnemoscope.report.markup import check_report_extra
        from mnemoscope.training import train

        check_report_extra()  # the page comes last, after a minute of training
        base = PRESETS["flipflop"]
        config = replace(base, name="demo", cell=self.cell, hidden_size=self.hidden_size, seed=self.seed)
        shown = shows_progress(self.json)
        trained = train(config, self.root, resume=True, progress=shown)
        inspection = inspect_run(trained.folder, options=InspectionOptions(progress=shown))
        facts = {"folder": str(trained.folder), "loss": trained.loss, "seconds": trained.seconds, **trained.scores}
        _print_inspection(inspection, inspection.save(), facts, self.json)
        return 0


@dataclass(frozen=True)
class Train:
    """Train a recurrent network on a memory task, or a relational network on a relational task.

    `mnemoscope train [PRESET | FILE.toml] [options]`, in any order. An option that is not given has the value of the
    preset or of the file. Without either, the preset is flipflop, or rmts for a relational task. The folder of the run
    is <root>/<name>/<hash>; a finished run is not repeated.

        mnemoscope train flipflop --cell gru --hidden-size 128
        mnemoscope train copy --task-options delay 100 --seed 1
        mnemoscope train low-rank-context --cell-options rank 1 populations 2
        mnemoscope train --task environment --task-options environment neurogym:PerceptualDecisionMaking-v0
        mnemoscope train runs/flipflop/0123456789/config.toml --resume

    Options of a cell are the arguments of its factory, as `help(mnemoscope.networks.low_rank)` shows them: the vectors
    of the cell low-rank start from one Gaussian population, or from a mixture of as many as `populations` says.

    Several GPUs or machines can train one model; each processes a part of every batch:

        torchrun --nproc-per-node 4 -m mnemoscope train copy --device cuda --batch-size 256

    A relational task holds some shapes out of training (task option m) and tests the network on them; `mnemoscope list
    networks` shows the networks. The preset rmts is the published recipe of four tasks: Adam with a learning rate
    of 5e-4 and 5,000 batches of 96 problems. Other tasks were published with other batches: rmts3 with 192 problems,
    same-different-6 with 384, identity-rules-4 with 224, relational-game with 2,500 batches of 32.

        mnemoscope train --task identity-rules --cell esbn --task-options m 50
        mnemoscope train --task rmts3 --batch-size 192
        mnemoscope train --task relational-game --task-options rule between --steps 2500 --batch-size 32
    """

    run_config: RunConfig
    root: Path = Path("runs")
    """Folder of all runs."""
    resume: bool = False
    """Continue an interrupted run. With the same --threads, the final weights are those of an uninterrupted run."""
    overwrite: bool = False
    """Delete what an earlier run left, and start again."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.training import build_task, train

        shown = shows_progress(self.json)
        result = train(self.run_config, self.root, resume=self.resume, overwrite=self.overwrite, progress=shown)
        if process_rank().rank:
            return 0  # rank 0 prints the result
        task = build_task(self.run_config)
        if self.json:
            content = {"folder": str(result.folder), **result.as_json(), "trivial": task.uninformed_scores()}
            print(json.dumps(content, indent=2))
            return 0
        scores = ", ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
        scores += _after("; ", task.uninformed_summary())
        duration = " (finished before)" if result.cached else f" in {result.seconds:.0f} s"
        guess = f"{task.baseline_label} {result.baseline:.3e}"
        print(printable(f"{result.steps} steps{duration}: loss {result.loss:.3e}, {guess}; {scores}."))
        print(f"Inspect it: {shlex.join([*_program(), 'inspect', str(result.folder)])}")
        return 0


@dataclass(frozen=True)
class Inspect:
    """Find the fixed points of a trained network, and write a page about it.

    The page of a network with attention shows what it attends to and keeps; that of a relational network shows its
    answers. The network is the folder of a run, or a file of weights: the `.safetensors` or `.pt` state dict of a
    torch.nn.RNN, GRU or LSTM, alone or inside a larger model. Code in such a file is never run. It may also be the
    folder of a language model of transformers, which is inspected on a text.

    The tokens label the page: of a run on characters these are characters, of a language model those of its tokenizer.

        mnemoscope inspect runs/flipflop/0123456789
        mnemoscope inspect my_network.pt --network gru --input 0 0 1
        mnemoscope inspect my_network.pt --network gru --trials inputs.npy
        mnemoscope inspect models/mamba2 --text story.txt
    """

    path: Positional[Path]
    """Folder of a run or of a model of transformers, or file of weights."""
    network: Literal["rnn", "gru", "lstm"] | None = None
    """Class of the network in a file of weights."""
    nonlinearity: Literal["tanh", "relu"] = "tanh"
    """Nonlinearity of a torch.nn.RNN."""
    prefix: str | None = None
    """Prefix of the names of the weights, such as `encoder.rnn.`, if a file has several recurrent networks."""
    input: tuple[float, ...] | None = None
    """Constant input of the network; zeros by default."""
    trials: Path | None = None
    """File of inputs (time, trials, features), .npy or .pt, on which the network of a file of weights is run."""
    text: Path | None = None
    """File of text whose characters (of a run on characters) or tokens (of a model of transformers) are shown with how
    long they are kept."""
    starts: int = 64
    """Number of starting points in each round of the search."""
    seed: int = 0
    """Seed of the search."""
    full: bool = False
    """Run the measurements that take longer than some seconds as well, such as long delays of large networks."""
    certify: bool = False
    """Prove by interval arithmetic that no fixed point in the box is missing, for states of up to three numbers."""
    output: Path | None = None
    """Where to write the page; by default page.html in the folder of a run, or a file next to the weights."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        if not self.path.exists():
            raise FileNotFoundError(f"There is no file or folder {self.path}.")
        inspection = self._inspect_run() if self.path.is_dir() else self._inspect_weights()
        page = inspection.save(self.output or (None if self.path.is_dir() else self.path.with_suffix(".html")))
        _print_inspection(inspection, page, {"network": str(self.path)}, self.json)
        return 0

    def _inspect_run(self) -> Inspection:
        if self.network is not None or self.prefix is not None or self.trials or self.nonlinearity != "tanh":
            raise ValueError(
                f"{self.path} is the folder of a run, which describes its network and its task; --network, "
                f"--nonlinearity, --prefix and --trials are for files of weights."
            )
        from mnemoscope.inspection import inspect

        return inspect(self.path, options=self._options())

    def _inspect_weights(self) -> Inspection:
        if self.text is not None:
            raise ValueError(
                f"{self.path} is a file of weights, whose inputs are numbers: omit --text, or pass --trials FILE."
            )
        if self.network is None:
            hint = " For a recording: mnemoscope recording, or mnemoscope fit." * (self.path.suffix in DATA)
            raise ValueError(f"{self.path} is a file of weights: name its class with --network rnn, gru or lstm.{hint}")
        from mnemoscope.cells.network_files import load_inputs, load_network
        from mnemoscope.inspection import inspect

        network = load_network(self.path, self.network, nonlinearity=self.nonlinearity, prefix=self.prefix)
        inputs = None if self.trials is None else load_inputs(self.trials)
        title = f"{self.path.name}: {network}" + (f" {self.nonlinearity}" if self.network == "rnn" else "")
        return inspect(network, inputs, name=title, options=self._options())

    def _options(self) -> InspectionOptions:
        from mnemoscope.inspection import InspectionOptions

        return InspectionOptions(
            self.input,
            self.starts,
            self.seed,
            self._command(),
            progress=shows_progress(self.json),
            full=self.full,
            text=None if self.text is None else self.text.read_text(encoding="utf-8"),
            certify=self.certify,
        )

    def _command(self) -> str:
        """Return these arguments as a command, which the page shows."""
        words = [*_program(), "inspect", str(self.path)]
        for argument in fields(self):
            value = getattr(self, argument.name)
            if argument.name not in ("path", "json") and value != argument.default:
                values = value if isinstance(value, tuple) else () if value is True else (value,)
                words.append(f"--{argument.name}")
                words += [f"{item:g}" if isinstance(item, float) else str(item) for item in values]
        return shlex.join(words)


def _program() -> list[str]:
    """Return the words with which a command begins, with the plugins in use."""
    return ["mnemoscope", *(word for name in registry.named_plugins() for word in ("--plugin", name))]


@dataclass(frozen=True)
class List:
    """Show all cells, relational networks, tasks, lenses, studies and presets, with their sources.

    A lens has two names: that of pages and citations, and that of its function, with `import mnemoscope as ms`.
    `mnemoscope list tasks` also shows the options of each task and the loss that a network reaches without memory, or
    by guessing if the task is relational. For tasks of random bits it shows the wrong bits of constant answers.
    """

    what: Positional[Literal["all", "cells", "networks", "tasks", "lenses", "studies", "presets"]] = "all"
    """List to show."""
    json: bool = False
    """Print as JSON: a list of objects with name, summary and source; for `all`, an object with one such list each."""

    def run(self) -> int:
        lists = {
            "cells": registry.cells,
            "networks": registry.networks,
            "tasks": registry.tasks,
            "lenses": registry.lenses,
            "studies": registry.studies,
        }
        rows = {name: [_row(entry) for entry in entries] for name, entries in lists.items()}
        rows["lenses"] = [
            row | {"python": _python_name(entry)} for row, entry in zip(rows["lenses"], registry.lenses, strict=True)
        ]
        rows["presets"] = [
            {"name": name, "summary": f"{_learner(config)} on {config.task}", "source": "mnemoscope"}
            for name, config in PRESETS.items()
        ]
        baselines: dict[str, str] = {}
        if self.what == "tasks":
            from mnemoscope.training import task_named  # imports torch, which the other lists do not need

            for row in rows["tasks"]:
                task_class = registry.tasks.load(row["name"])
                if needed := required_options(task_class):
                    known = options_of(task_class).items()
                    options = {name: None if name in needed else parameter.default for name, parameter in known}
                    row |= {"options": options, "baseline": None, "trivial": {}}
                    baselines[row["name"]] = f"the loss depends on {' and '.join(needed)}, which must be given"
                    continue
                task, options = task_named(row["name"]), asdict(task_class())
                row |= {"options": options, "baseline": task.baseline(), "trivial": task.uninformed_scores()}
                reached = f"loss {task.baseline_label} {task.baseline():.3g}"
                baselines[row["name"]] = reached + _after("; wrong bits ", task.uninformed_summary())
        chosen = rows if self.what == "all" else {self.what: rows[self.what]}
        if self.json:
            print(json.dumps(chosen if self.what == "all" else chosen[self.what], indent=2))
            return 0
        for name, entries in chosen.items():
            print(f"{name}:")
            width = max(16, *(len(entry["name"]) for entry in entries))
            python_width = max(len(entry.get("python", "")) for entry in entries)
            for entry in entries:
                python = f"{entry['python']:{python_width}} " if python_width else ""
                print(f"  {entry['name']:{width}} {python}{entry['summary']}  [{entry['source']}]")
                if "options" in entry:
                    options = ", ".join(f"{name} {value}" for name, value in entry["options"].items())
                    print(f"  {'':{width}} {options}: {baselines[entry['name']]}")
        return 0


@dataclass(frozen=True)
class RunStudy:
    """Run a study: measure a published table or figure again, and compare.

    Every trial has a folder, so that an interrupted study can be resumed.

        mnemoscope study flipflop-cube --preset smoke
        mnemoscope study flipflop-cube --preset cpu --seeds 0 1 2 --resume
        mnemoscope study fisher-table --engine-options max_jobs 4
        mnemoscope study fisher-table --engine ray --engine-options address auto
    """

    name: Positional[str]
    """Name of the study; `mnemoscope studies` lists them."""
    preset: str = "cpu"
    """Size of the study. smoke takes seconds; cpu takes minutes on two cores; paper comes as close to the publication
    as possible, often on a GPU. Some studies have more presets, such as published, the exact published recipe; the
    error about an unknown name lists all of them."""
    seeds: tuple[int, ...] = ()
    """Seeds to run instead of those of the preset."""
    resume: bool = False
    """Keep the trials that have finished, and run the rest."""
    finished_only: bool = False
    """Run nothing; write the table and the page of the trials that have finished."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where to run the trials. local: one process per trial, which share the cores, so that a crash ends only one
    trial. ray, slurm: on a cluster. here: one after the other in this process."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Options of the engine in pairs of name and value, such as max_jobs 4 (local), address auto (ray), or partition
    gpu minutes 90 (slurm)."""
    root: Path = Path("runs")
    """Folder of all runs; the folder of the study is <root>/studies/<name>/<preset>."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        registry.studies[self.name]  # raises on an unknown name before torch is imported
        from mnemoscope.replication import run_study

        result = run_study(
            self.name,
            self.preset,
            self.seeds or None,
            self.root,
            resume=self.resume,
            finished_only=self.finished_only,
            progress=shows_progress(self.json),
            engine=engine_named(self.engine, self.engine_options),
        )
        if self.json:
            content = {**asdict(result), "folder": str(result.folder), "page": str(result.page)}
            print(json.dumps(content, indent=2))
            return 1 if result.failed else 0
        for row in result.rows:
            compared = f"published {row.published:14} here {row.ours:14} {row.judgement!s:16} {row.remark}"
            print(printable(f"{row.quantity:40} {compared}"))
        print(f"Page: {result.page}")
        for failed in result.failed:
            print(printable(f"Failed: {failed}"), file=sys.stderr)
        return 1 if result.failed else 0


def engine_named(name: str, options: dict[str, Option]) -> Engine | None:
    """Return the engine of a name with its options; None for "here"."""
    from mnemoscope.engines import build_engine

    if name == "here" and options:
        raise ValueError("--engine here has no options: it runs one trial after the other.")
    return None if name == "here" else build_engine(name, options)


def _row(entry: registry.Entry) -> dict[str, Any]:
    return {"name": entry.name, "summary": entry.summary, "source": entry.source, "tags": list(entry.tags)}


def _python_name(entry: registry.Entry) -> str:
    """Return how Python code calls a lens: `ms.find_fixed_points`, or the module and function of a plugin."""
    module, _, name = entry.target.partition(":")
    return f"ms.{name}" if module == "mnemoscope.lenses" else f"{module}.{name}"


def _learner(config: RunConfig) -> str:
    return config.cell if registry.is_relational(config.task) else f"{config.cell} {config.hidden_size}"


def _after(separator: str, text: str) -> str:
    """Return the text after a separator; "" for an empty text."""
    return f"{separator}{text}" if text else ""


def _print_inspection(inspection: Inspection, written: Path, facts: dict[str, Any], as_json: bool) -> None:
    summary, page = inspection.summary(), str(written.resolve())
    if as_json:
        print(json.dumps({**facts, "summary": summary, "page": page, **_findings(inspection, written)}, indent=2))
    else:
        print(printable(f"{summary}\nPage: {page}"))


def _findings(inspection: Inspection, page: Path) -> dict[str, Any]:
    """Return the fixed points of a network, or the accuracy of its answers, as JSON data."""
    fp, uniform, problems = inspection.fixed_points, inspection.uniform_fixed_points, inspection.problems
    if problems is not None:
        return {"accuracy": {"unseen": problems.unseen, "seen": problems.seen}}
    if uniform is not None:
        return {
            "uniform_fixed_points": len(uniform),
            "unstable": uniform.unstable.tolist(),
            "index_sum": uniform.reduced.index_sum,
        }
    if fp is None:
        return {}
    from mnemoscope.inspection.result import saved_result

    return {
        "points": len(fp),
        "kinds": fp.kind,
        "unstable": fp.unstable.tolist(),
        "q": fp.q.tolist(),
        "index_sum": fp.index_sum,
        "may_be_complete": fp.may_be_complete,
        "certified": None if fp.certificate is None else fp.certificate.complete,
        "slow_points": 0 if fp.slow is None else len(fp.slow),
        "starts": {} if fp.starts is None else {status.name.lower(): n for status, n in fp.starts.counts().items()},
        "fixed_points": str(saved_result(page, "fixed_points").resolve()),
    }
