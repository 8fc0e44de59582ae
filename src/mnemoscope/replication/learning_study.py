"""Studies that train networks on one task and compare how they learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from math import ceil, inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mnemoscope.base.rounding import shortened
from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import PALETTE
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.networks.sizes import count_parameters
from mnemoscope.replication.claims import Row, as_subject
from mnemoscope.replication.study import Finished, Study, Trial
from mnemoscope.training import NonFiniteLoss, build_model, build_task, train
from mnemoscope.training.callbacks import Callback
from mnemoscope.training.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT_POINTS = 100
"""Highest number of points kept of a learning curve."""
_COLOURS = (*PALETTE, "path", "ink", "muted")


class LearningStudy(Study):
    """Networks, each a change of one configuration, trained and compared by a score.

    The settings of a preset are `networks`, a table from subjects (or names of networks) to changes of `base`,
    `changes`, which apply to all of them, and optionally `seeds`, the seeds of networks that run with fewer, by name.
    """

    resumes = True
    base: RunConfig
    score: str
    """Which of the task's scores is compared, or "loss"."""
    score_in_words: str
    landmarks: Sequence[tuple[float, float]] = ()
    """Ranges of the score; a study reports when a network first reached each of them."""

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        trials, seeds = [], tuple(seeds)
        seeds_of = settings.get("seeds", {})
        for key, changes in settings["networks"].items():
            subject, config = as_subject(key), vars(changed(self.base, changes, settings["changes"]))
            chosen = [seed for seed in seeds if seed in seeds_of.get(subject.network, seeds)]
            trials += [Trial(subject.name, {**config, "seed": seed}, seed, subject) for seed in chosen]
        return trials

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        config = RunConfig(**trial.settings)
        model = build_model(config, build_task(config))
        result: dict[str, Any] = {"parameters": count_parameters(model)}
        shared = take_trained(config, folder)
        try:
            trained = train(config, folder, resume=True, progress=progress, callbacks=self.callbacks(trial))
        except NonFiniteLoss as error:
            result |= {"failed": str(error).split(";")[0]}
        else:
            result |= {
                "steps": trained.steps,
                "loss": trained.loss,
                "baseline": trained.baseline,
                "seconds": round(trained.seconds, 1),
                **trained.scores,
            }
            result |= self.measure(trained.folder) | ({"trained by": shared} if shared else {})
        lines = RunFolder(config.folder(folder)).read_metrics()
        if lines and "left_out" in lines[-1]:
            result["left out"] = lines[-1]["left_out"]
        return result | {"curve": _curve(lines, self.score, self.landmarks)}

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Return the environment in which the network was trained, which may differ from the current one."""
        return RunFolder(RunConfig(**trial.settings).folder(folder)).read_environment()

    def callbacks(self, trial: Trial) -> Sequence[Callback]:
        """Return the callbacks of the training of a trial."""
        return ()

    def measure(self, run: Path) -> dict[str, Any]:
        """Return further measurements of a trained network, whose run is in the folder `run`."""
        return {}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            measured = [each.result[self.score] for each in finite(trials)]
            rows.append(self.row(trials, self.score_in_words, measured, remark=self.remark(trials)))
            rows += self.more_rows(name, trials)
        return rows

    def remark(self, trials: Sequence[Finished]) -> str:
        """Return the remark on a network's score."""
        remark = f"{trials[0].result['parameters']:,} parameters; {count_seeds(trials)}"
        diverged = len(trials) - len(finite(trials))
        return f"{remark}; {diverged} did not stay finite" if diverged else remark

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        """Return further rows about a network."""
        return []

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the task and the length of training of the published one."""
        return all(trial.settings[name] == getattr(self.base, name) for name in ("steps", "batch_size", "task_options"))

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw learning curves: the median and the range over the seeds."""
        figure = new_figure(7.2, 3.6)
        axes = figure.add_subplot()
        for colour, (name, trials) in zip(colours(), by_name(results).items(), strict=False):
            curves = [each.result["curve"] for each in trials if each.result["curve"]["step"]]
            if not curves:
                continue
            values = list(zip(*(curve[self.score] for curve in curves), strict=False))  # up to the shortest curve
            draw_range(axes, curves[0]["step"][: len(values)], values, color=colour, label=name)
        axes.set(xlabel="iterations", ylabel=self.score_in_words)
        add_legend(axes, beside=True)
        style_page_axes(axes)
        return figure


def take_trained(config: RunConfig, folder: Path) -> str | None:
    """Copy the run of another study that has trained the same network, if there is one.

    Args:
        config: the run; everything that determines its result must be the same, but not its name.
        folder: folder of the trial, `<root>/studies/<study>/<preset>/<trial>`.

    Returns:
        The `<study>/<preset>/<trial>` that trained it, or None if it must be trained here.

    """
    run, studies = RunFolder(config.folder(folder)), folder.parent.parent.parent
    if run.status != "new":
        return None
    for path in sorted(studies.glob(f"*/*/*/*/{config.hash}")):
        if (other := RunFolder(path)).status == "finished":
            other.copy_finished(run, config)
            return path.parent.parent.relative_to(studies).as_posix()
    return None


def colours() -> Iterator[str]:
    """Yield the colours of the page, in a cycle."""
    return cycle(COLOUR[name] for name in _COLOURS)


def draw_range(axes: Any, x: Sequence[float], values: Sequence[Sequence[float]], color: str, **style: Any) -> None:
    """Draw the median of the values at each x as a line, and their range as a band."""
    low, middle, high = ([summary(at) for at in values] for summary in (min, median, max))
    axes.plot(x, middle, color=color, **style)
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def by_name(results: Sequence[Finished]) -> dict[str, list[Finished]]:
    """Group the trials by their name, in the order of the grid."""
    groups: dict[str, list[Finished]] = {}
    for each in results:
        groups.setdefault(each.trial.name, []).append(each)
    return groups


def finite(trials: Sequence[Finished]) -> list[Finished]:
    """Return the trials whose network stayed finite."""
    return [each for each in trials if "failed" not in each.result]


def first_step(
    curve: Mapping[str, Sequence[float]], score: str, at_least: float = -inf, at_most: float = inf
) -> float | None:
    """Return the first evaluated step at which the score was within these bounds, or None."""
    values = zip(curve["step"], curve[score], strict=True)
    return next((step for step, value in values if at_least <= value <= at_most), None)


def _curve(
    lines: Sequence[Mapping[str, Any]], score: str, landmarks: Sequence[tuple[float, float]]
) -> dict[str, list[float | None]]:
    """Return thinned-out steps, losses and scores, with the last point and the first one within each landmark.

    A value is None if all batches before the evaluation were left out.
    """
    every = max(1, ceil(len(lines) / KEPT_POINTS))
    places = set(range(len(lines) - 1, -1, -every))
    for low, high in landmarks:
        places |= set([place for place, line in enumerate(lines) if low <= line[score] <= high][:1])
    kept = [lines[place] for place in sorted(places)]
    names = dict.fromkeys(("step", "train_loss", "gradient_norm", "loss", "accuracy", score))
    return {name: [shortened(line[name]) for line in kept] for name in names if all(name in line for line in kept)}


def count_seeds(trials: Sequence[Finished]) -> str:
    """Return the number of seeds as text."""
    return f"{len(trials)} seed{'s' if len(trials) > 1 else ''}"
