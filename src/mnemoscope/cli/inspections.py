"""The command inspect, and how an inspection is printed. Importing it does not import torch."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mnemoscope import registry
from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.cli.tyro_types import Positional

if TYPE_CHECKING:
    from mnemoscope.cells import Model
    from mnemoscope.inspection import Inspection, InspectionOptions

DATA = (".npy", ".npz", ".nwb")
"""Endings of files of data, which `inspect` does not take."""


@dataclass(frozen=True)
class Inspect:
    """Find the fixed points of a trained network, and write a page about it.

    The page of a network with attention shows what it attends to and keeps; that of a relational network shows its
    answers. The network is the folder of a run, or a file of weights: the `.safetensors` or `.pt` state dict of a
    torch.nn.RNN, GRU or LSTM, alone or inside a larger model. Code in such a file is never run. It may also be the
    folder of a language model of transformers, which is inspected on a text, or a network that `fit` wrote.

    The tokens label the page: of a run on characters these are characters, of a language model those of its tokenizer.

        mnemoscope inspect runs/flipflop/0123456789
        mnemoscope inspect my_network.pt --network gru --input 0 0 1
        mnemoscope inspect my_network.pt --network gru --trials inputs.npy
        mnemoscope inspect rates.fit.network.safetensors
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
        print_inspection(inspection, page, {"network": str(self.path)}, self.json)
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
        from mnemoscope.cells.fitted_networks import holds_fitted_network
        from mnemoscope.cells.network_files import load_inputs
        from mnemoscope.inspection import inspect

        inputs = None if self.trials is None else load_inputs(self.trials)
        if holds_fitted_network(self.path):
            return inspect(self._fitted_network(), inputs, name=self.path.name, options=self._options())
        if self.network is None:
            hint = " For a recording: mnemoscope recording, or mnemoscope fit." * (self.path.suffix in DATA)
            raise ValueError(f"{self.path} is a file of weights: name its class with --network rnn, gru or lstm.{hint}")
        from mnemoscope.cells.network_files import load_network

        network = load_network(self.path, self.network, nonlinearity=self.nonlinearity, prefix=self.prefix)
        title = f"{self.path.name}: {network}" + (f" {self.nonlinearity}" if self.network == "rnn" else "")
        return inspect(network, inputs, name=title, options=self._options())

    def _fitted_network(self) -> Model:
        if self.network is not None or self.prefix is not None or self.nonlinearity != "tanh":
            raise ValueError(
                f"{self.path} describes the network that was fitted: omit --network, --nonlinearity and --prefix."
            )
        from mnemoscope.cells.fitted_networks import load_fitted_network

        return load_fitted_network(self.path).float()

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
        words = [*program(), "inspect", str(self.path)]
        for argument in fields(self):
            value = getattr(self, argument.name)
            if argument.name not in ("path", "json") and value != argument.default:
                values = value if isinstance(value, tuple) else () if value is True else (value,)
                words.append(f"--{argument.name}")
                words += [f"{item:g}" if isinstance(item, float) else str(item) for item in values]
        return shlex.join(words)


def program() -> list[str]:
    """Return the words with which a command begins, with the plugins in use."""
    return ["mnemoscope", *(word for name in registry.named_plugins() for word in ("--plugin", name))]


def print_inspection(inspection: Inspection, written: Path, facts: dict[str, Any], as_json: bool) -> None:
    """Print the summary of an inspection and the path of its page, or these and further facts as JSON."""
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
