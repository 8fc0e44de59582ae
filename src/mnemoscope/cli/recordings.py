"""The commands fit and recording, on files of neural or network activity. Importing them does not import torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.base.validation import check_whole
from mnemoscope.cli.tyro_types import Positional

if TYPE_CHECKING:
    from mnemoscope.lenses import Recording


@dataclass(frozen=True)
class DescribeRecording:
    """Apply the lenses on populations to a recording: components, rotations, tensors and selective units.

    The file is an array (trials, time, units), .npy; an .npz file with this array as `activity`, perhaps `inputs`,
    and one value for each trial under the name of every condition; an .nwb file (needs mnemoscope[nwb]); or a saved
    recording, .safetensors. NaN stands for numbers that are missing.

        mnemoscope recording rates.npz --figures figures
        mnemoscope recording session.nwb --step 20 --smoothing 50 --conditions side
    """

    path: Positional[Path]
    """File of the recording."""
    step: float | None = None
    """Duration of a step in milliseconds; the width of a bin of an NWB file, which needs it."""
    smoothing: float | None = None
    """Standard deviation of a Gaussian kernel in milliseconds, or in steps without --step."""
    conditions: tuple[str, ...] = ()
    """Conditions to keep; all by default, but none of an NWB file."""
    series: str | None = None
    """Series of samples in an NWB file, instead of spike times."""
    rank: int = 3
    """Number of tensor components."""
    shuffles: int = 100
    """Number of shuffles and surrogates with which results are compared."""
    figures: Path | None = None
    """Folder in which to write a figure of each result."""
    json: bool = False
    """Print the summaries as JSON."""

    def run(self) -> int:
        recording = _read(self)
        found: dict[str, Any] = {"recording": recording}
        for name, lens in self._lenses(recording).items():
            try:
                found[name] = lens()
            except ValueError as error:
                found[name] = error  # a lens that does not apply to these data gives the reason
        summaries = {
            name: f"Not applied. {result}" if isinstance(result, ValueError) else result.summary()
            for name, result in found.items()
        }
        if self.figures is not None:
            self.figures.mkdir(parents=True, exist_ok=True)
            for name, result in found.items():
                if not isinstance(result, ValueError):
                    result.figure().savefig(self.figures / f"{name.replace(' ', '_')}.png")
        if self.json:
            print(json.dumps(summaries, indent=2))
            return 0
        for name, summary in summaries.items():
            print(printable(f"{name}: {summary}"))
        return 0

    def _lenses(self, recording: Recording) -> dict[str, Any]:
        from mnemoscope import lenses as population

        lenses: dict[str, Any] = {"principal components": lambda: population.principal_components(recording)}
        if recording.table.names:
            lenses["demixed components"] = lambda: population.demixed_components(recording, shuffles=self.shuffles)
            lenses["rotations"] = lambda: population.find_rotations(recording, surrogates=self.shuffles)
            lenses["selectivity"] = lambda: population.measure_selectivity(recording, shuffles=self.shuffles)
        lenses["tensor components"] = lambda: population.tensor_components(recording, rank=self.rank)
        return lenses


@dataclass(frozen=True)
class FitRecording:
    """Fit a network to a recording without a task, and find its fixed points.

    The file is as for `mnemoscope recording`. A fifth of the trials is held out to score the network; with --folds,
    every trial is held out once. The page shows the network that was fitted last to the trials that were not held out,
    and its weights are saved next to the page; `mnemoscope inspect` takes their file.

        mnemoscope fit rates.npz
        mnemoscope fit session.nwb --step 20 --smoothing 50 --folds 5
        mnemoscope fit rates.npy --units recorded --method force --hidden-size 20
    """

    path: Positional[Path]
    """File of the recording."""
    units: Literal["latent", "recorded"] = "latent"
    """latent: a few units with a readout of all recorded ones. recorded: one unit for each recorded one."""
    method: Literal["gradient", "force"] = "gradient"
    """gradient: Adam. force: recursive least squares while the network runs, for --units recorded."""
    hidden_size: int | None = None
    """Number of latent units, 8 by default; of hidden units in addition to recorded ones, 0 by default."""
    updates: int | None = None
    """Updates by Adam, 400 by default, or passes over all trials of force, 20 by default."""
    forcing: float = 0.2
    """How far data move the state at every step, from 0 to 1."""
    folds: int = 1
    """Number of parts of the trials, each of which is held out once; 1 for one fifth of them."""
    step: float | None = None
    """Duration of a step in milliseconds; the width of a bin of an NWB file, which needs it."""
    smoothing: float | None = None
    """Standard deviation of a Gaussian kernel in milliseconds, or in steps without --step."""
    conditions: tuple[str, ...] = ()
    """Conditions that every fold has all values of; all by default, but none of an NWB file."""
    series: str | None = None
    """Series of samples in an NWB file, instead of spike times."""
    seed: int = 0
    """Seed of weights, and of the trials and units held out."""
    output: Path | None = None
    """Where to write the page; next to the file by default, as <name>.fit.html."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        check_whole(1, folds=self.folds)
        from mnemoscope.inspection import InspectionOptions, inspect
        from mnemoscope.report.markup import check_report_extra
        from mnemoscope.training import fit_network

        check_report_extra()  # the page comes last, after the fit
        recording, shown = _read(self), shows_progress(self.json)
        pairs: list[Any] = [(recording, None)]
        if self.folds > 1:
            pairs = recording.folds(self.folds, *recording.table.names, seed=self.seed)
        fits = [
            fit_network(
                trials,
                units=self.units,
                method=self.method,
                hidden_size=self.hidden_size,
                updates=self.updates,
                forcing=self.forcing,
                test=test,
                seed=self.seed,
                progress=shown,
            )
            for trials, test in pairs
        ]
        page = self.output or self.path.with_name(f"{self.path.stem}.fit.html")
        model = fits[-1].model.float()
        inputs = None if recording.inputs is None else recording.inputs.nan_to_num().float()
        title = f"{self.path.name}: {model.cell}"
        inspection = inspect(model, inputs, name=title, options=InspectionOptions(seed=self.seed, progress=shown))
        inspection.save(page)
        weights = fits[-1].save(page.with_suffix(".network.safetensors"))
        scores = [fit.summary() for fit in fits]
        if self.json:
            places = {"page": str(page.resolve()), "weights": str(weights.resolve())}
            print(json.dumps({"fits": scores, "summary": inspection.summary(), **places}, indent=2))
            return 0
        for number, score in enumerate(scores, 1):
            print(printable(f"Fold {number}: {score}" if self.folds > 1 else score))
        print(printable(f"{inspection.summary()}\nPage: {page.resolve()}\nWeights: {weights.resolve()}"))
        return 0


def _read(command: DescribeRecording | FitRecording) -> Recording:
    from mnemoscope.lenses.recording.files import read_recording

    return read_recording(
        command.path,
        step=command.step,
        conditions=command.conditions,
        series=command.series,
        smoothing=command.smoothing,
    )
