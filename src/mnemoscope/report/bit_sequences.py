"""A sequence of a bit task as images: inputs, targets, outputs and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.tasks.bit_task import BitTask, MatrixItems
from mnemoscope.tasks.task import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP, LEAST_WIDTH = 0.16, 4.0
"""Width of a step, and least width of the figure, in inches."""


def draw_bits(
    task: BitTask,
    batch: Batch,
    outputs: Float[Tensor, "time batch output"] | None = None,
    *,
    sequence: int = 0,
    colours: Mapping[str, str] = LIGHT,
) -> Figure:
    """Draw inputs, targets and outputs of one sequence over time, one row per bit (needs the `report` extra).

    Outputs are drawn as the probability of a 1, with a cross on each wrong bit. Masked steps are blank. Lines separate
    the rows of a matrix, or the bits from the channels.

    Args:
        task: the task of the batch.
        batch: on any device.
        outputs: logits of a network; without them, only inputs and targets are drawn.
        sequence: index of the sequence in the batch.
        colours: by the names of `LIGHT`.

    >>> from mnemoscope.tasks import BitCopy
    >>> task = BitCopy(longest=3)
    >>> len(draw_bits(task, task.batch(1, seed=0, number=0)).axes)
    2

    """
    if not 0 <= sequence < batch.mask.shape[1]:
        raise ValueError(f"The batch has sequences 0 to {batch.mask.shape[1] - 1}, but {sequence=}.")
    if outputs is not None and outputs.shape != batch.targets.shape:
        raise ValueError(
            f"The outputs must have the shape {tuple(batch.targets.shape)} of the targets, but have "
            f"{tuple(outputs.shape)}."
        )
    inputs, targets, mask = (part[:, sequence].detach().cpu() for part in batch)
    end = int(mask.nonzero()[-1]) + 1 if mask.any() else len(mask)  # the rest is padding
    inputs, targets, mask = inputs[:end], targets[:end].float(), mask[:end]
    panels = [("input", inputs), ("target", targets.where(mask[:, None], float("nan")))]
    if outputs is not None:
        probabilities = outputs[:end, sequence].detach().cpu().sigmoid()
        panels.append(("output", probabilities.where(mask[:, None], float("nan"))))

    heights = [values.shape[1] for _, values in panels]
    figure = new_figure(max(LEAST_WIDTH, STEP * end + 0.8), STEP * sum(heights) + 0.35 * len(panels) + 0.4)
    rows: Any = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, values) in zip(rows, panels, strict=True):
        axes.imshow(values.T.numpy(), cmap=_shades(colours), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        group = task.columns if isinstance(task, MatrixItems) else task.random_bits
        for line in range(group, values.shape[1], group):
            axes.axhline(line - 0.5, color=colours["path"], linewidth=0.8)
        axes.set(ylabel=name, yticks=[])
        style_axes(axes, colours, 9)
    for t, feature in ((inputs != 0) & (inputs != 1)).nonzero().tolist():  # a number, not a bit
        rows[0].text(t, feature, f"{inputs[t, feature]:.2g}", ha="center", va="center", size=7, color=colours["ink"])
    if outputs is not None:
        wrong = ((outputs[:end, sequence].detach().cpu() > 0) != (targets > 0)) & mask[:, None]
        at, bit = wrong.nonzero().T.numpy()
        rows[2].plot(at, bit, "x", color=colours["unstable"], markersize=5)
        title = f"{wrong.sum() / mask.sum().clamp(min=1):.2f} wrong bits per step, on average"
        rows[2].set_title(title, loc="left", size=9, color=colours["ink"])
    rows[-1].set_xlabel("step")
    return figure


def _shades(colours: Mapping[str, str]) -> Any:
    """Return a colour map from the background to ink; NaN is transparent."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("bits", [colours["line"], colours["ink"]]).with_extremes(bad="none")
