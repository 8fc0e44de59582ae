"""Studies that train networks on one task and compare how they learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle
from math import ceil, inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import PALETTE
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.replication.study import Finished, Row, Study, Trial
from mnemoscope.training import NonFiniteLoss, build_model, build_task, train
from mnemoscope.training.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT_POINTS = 100
"""Of a learning curve, at most."""
_COLOURS = (*PALETTE, "path", "ink", "muted")


class LearningStudy(Study):
    """Networks by name, each a change of one configuration, trained and compared by a score.

    The settings of a preset: `networks`, a table from names to changes of `base`, and `changes` of all of them.
    """

    base: RunConfig
    score: str
    """Which of the task's scores is compared, or "loss"."""
    score_in_words: str
    landmarks: Sequence[tuple[float, float]] = ()
    """Ranges of the score of which a study tells when it was first within them."""

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(name, asdict(changed(changed(self.base, changes), settings["changes"], seed=seed)), seed)
            for name, changes in settings["networks"].items()
            for seed in seeds
        ]

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        config = RunConfig(**trial.settings)
        model = build_model(config, build_task(config))
        result: dict[str, Any] = {
            "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        }
        shared = take_trained(config, folder)
        try:
            trained = train(config, folder, resume=True, progress=progress)
        except NonFiniteLoss as error:
            result |= {"failed": str(error).split(";")[0]}
        else:
            result |= {"steps": trained.steps, "loss": trained.loss, "baseline": trained.baseline,
                       "seconds": round(trained.seconds, 1), **trained.scores}  # fmt: skip
            result |= self.look(trained.folder) | ({"trained by": shared} if shared else {})
        lines = RunFolder(config.folder(folder)).read_metrics()
        if lines and "left_out" in lines[-1]:
            result["left out"] = lines[-1]["left_out"]
        return result | {"curve": _curve(lines, self.score, self.landmarks)}

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Where the network was trained, which need not be where it is looked at."""
        return RunFolder(RunConfig(**trial.settings).folder(folder)).read_environment()

    def look(self, run: Path) -> dict[str, Any]:
        """What else is measured of a trained network, in the folder of its run."""
        return {}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, own in by_name(results).items():
            measured = [one.result[self.score] for one in finite(own)]
            rows.append(self.row(own, self.score_in_words, measured, remark=self.remark(own)))
            rows += self.more_rows(name, own)
        return rows

    def remark(self, own: Sequence[Finished]) -> str:
        """What is said of a network beside its score."""
        said = f"{own[0].result['parameters']:,} parameters; {_seeds(own)}"
        lost = len(own) - len(finite(own))
        return f"{said}; {lost} did not stay finite" if lost else said

    def more_rows(self, name: str, own: Sequence[Finished]) -> list[Row]:
        """What else is told of a network."""
        return []

    def row(
        self,
        own: Sequence[Finished],
        quantity: str,
        measured: Sequence[float],
        form: str = ".4g",
        remark: str = "",
        ours: str | None = None,
    ) -> Row:
        """What was measured of a network, in words if `ours` has them, beside what was published of it; compared only
        where it was trained as long, on the same task, as the published one.
        """
        quantity = f"{own[0].trial.name}: {quantity}"
        stated = next((one for one in self.published if one.quantity == quantity), None)
        ours = (", ".join(f"{value:{form}}" for value in measured) or "none") if ours is None else ours
        if stated is None:
            return Row(quantity, "", ours, remark=remark)
        return self.compared(own, stated, quantity, measured, ours, remark)

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the length and the task of the published one."""
        return all(trial.settings[name] == getattr(self.base, name) for name in ("steps", "batch_size", "task_options"))

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Learning curves: the median over the seeds, and between which values they lie."""
        figure = new_figure(7.2, 3.6)
        axes = figure.add_subplot()
        for colour, (name, own) in zip(colours(), by_name(results).items(), strict=False):
            curves = [one.result["curve"] for one in own if one.result["curve"]["step"]]
            if not curves:
                continue
            length = min(len(curve["step"]) for curve in curves)
            steps = curves[0]["step"][:length]
            values = list(zip(*(curve[self.score][:length] for curve in curves), strict=True))
            axes.plot(steps, [median(at) for at in values], color=colour, label=name)
            axes.fill_between(steps, [min(at) for at in values], [max(at) for at in values], color=colour, alpha=0.15,
                              linewidth=0)  # fmt: skip
        axes.set(xlabel="iterations", ylabel=self.score_in_words)
        add_legend(axes, beside=True)
        style_page_axes(axes)
        return figure


def take_trained(config: RunConfig, folder: Path) -> str | None:
    """Copy the run of a trial from another study that has trained the same network, if there is one.

    Args:
        config: the run; all that determines its result must be the same, whatever its name.
        folder: of the trial, `<root>/studies/<study>/<preset>/<trial>`.

    Returns:
        `<study>/<preset>/<trial>` of where it was trained, or None if it is still to be trained here.

    """
    own, studies = RunFolder(config.folder(folder)), folder.parent.parent.parent
    if own.status != "new":
        return None
    for path in sorted(studies.glob(f"*/*/*/*/{config.hash}")):
        if (other := RunFolder(path)).status == "finished":
            other.copy_finished(own, config)
            return path.parent.parent.relative_to(studies).as_posix()
    return None


def colours() -> Iterator[str]:
    """Of the page, one after the other, without end."""
    return cycle(COLOUR[name] for name in _COLOURS)


def by_name(results: Sequence[Finished]) -> dict[str, list[Finished]]:
    """The trials of each network, in the order of the grid."""
    names = dict.fromkeys(one.trial.name for one in results)
    return {name: [one for one in results if one.trial.name == name] for name in names}


def finite(own: Sequence[Finished]) -> list[Finished]:
    """The trials whose network stayed finite."""
    return [one for one in own if "failed" not in one.result]


def first_step(
    curve: Mapping[str, Sequence[float]], score: str, at_least: float = -inf, at_most: float = inf
) -> float | None:
    """The first evaluated step at which the score was within these bounds, or None."""
    values = zip(curve["step"], curve[score], strict=True)
    return next((step for step, value in values if at_least <= value <= at_most), None)


def _curve(
    lines: Sequence[Mapping[str, Any]], score: str, landmarks: Sequence[tuple[float, float]]
) -> dict[str, list[float | None]]:
    """Steps, losses and scores, thinned out; the last one, and the first one within each landmark, are kept always.

    None where all batches before an evaluation were left out.
    """
    every = max(1, ceil(len(lines) / KEPT_POINTS))
    places = set(range(len(lines) - 1, -1, -every))
    for low, high in landmarks:
        places |= set([place for place, line in enumerate(lines) if low <= line[score] <= high][:1])
    kept = [lines[place] for place in sorted(places)]
    names = dict.fromkeys(("step", "train_loss", "gradient_norm", "loss", "accuracy", score))
    return {name: [_shortened(line[name]) for line in kept] for name in names if all(name in line for line in kept)}


def _shortened(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _seeds(own: Sequence[Finished]) -> str:
    return f"{len(own)} seed{'s' if len(own) > 1 else ''}"
