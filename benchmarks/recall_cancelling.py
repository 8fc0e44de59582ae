"""How two layers share an answer: why recall is not predicted well if one of them cancels the other.

    python benchmarks/recall_networks.py --only "retnet, 2"     train first, in runs/recall
    python benchmarks/recall_cancelling.py --keep               table to benchmarks/results/recall_cancelling.md

The last norm fixed at its value, the score of a class is a sum of what each layer adds to it. The table has, at 4 pairs
and over all queries: mean and standard deviation of what the first layer adds to the score of the value asked for (in
excess of values that are not listed), the correlation of that with what the second layer adds, the standard deviation
of the difference between this score and the mean score of the other values of the list, and the relative change of
what the second layer reads of the value asked for if it is in another sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, folder, option_parser
from mnemoscope.cells import Block, Stack, affine_layers
from mnemoscope.lenses.interference.asked_for import own_parts
from mnemoscope.lenses.interference.context import in_other_sequences
from mnemoscope.lenses.interference.exchange import Query, Recalling, signal_of
from mnemoscope.tasks import KeyValueRecall
from mnemoscope.training import load_model
from recall import SEED
from recall_networks import ROOT, trained

PAIRS, SEQUENCES = 4, 64
COLUMNS = (
    "network",
    "right",
    "first layer: mean",
    "standard deviation",
    "correlation with the second",
    "scatter within a list",
    "change in another sequence",
)


class Shares(NamedTuple):
    """Contributions of the layers to the scores of listed values at one query, for each sequence."""

    first: Tensor
    second: Tensor
    excess: Tensor
    """Score of the value asked for over the mean of the other listed values."""
    change: Tensor
    """Relative change of what the second layer reads of the value asked for, in another sequence."""


def main() -> None:
    """Analyse the networks of two layers without a convolution, and write the table."""
    parser = option_parser(__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the trained networks")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [f"`{command()}`", "", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name, path in trained(given.root).items():
        if name.startswith(("retnet, 2", "gla, 2")):
            lines.append(row(name, path))
            print(lines[-1], flush=True)
    (folder(given.keep) / "recall_cancelling.md").write_text("\n".join(lines) + "\n")


@torch.no_grad()
def row(name: str, path: Path) -> str:
    """Return the line of one network."""
    model, task, _ = load_model(path)
    assert isinstance(task, KeyValueRecall)
    batch = task.at(PAIRS).batch(SEQUENCES, SEED, 0, "test")
    trials = ms.RecallTrials(batch.inputs, batch.targets, task.sources(batch))
    right = (model(trials.inputs)[0].argmax(-1) == trials.targets)[trials.asked].double().mean()
    recalling = Recalling(model, trials, affine_layers(model, trials.inputs))
    listed = trials.inputs[..., task.keys :].any(0)
    shares = [shares_of(recalling, query, listed) for query in recalling.queries()]
    first, second, excess, change = (torch.cat(part) for part in zip(*shares, strict=True))
    r = torch.corrcoef(torch.stack([first, second]))[0, 1]
    return (
        f"| {name} | {right:.3f} | {first.mean():.2f} | {first.std():.2f} | {r:.2f} | {excess.std():.2f} "
        f"| {change.mean():.0%} |"
    )


def shares_of(recalling: Recalling, query: Query, listed: Tensor) -> Shares:
    """Return what both layers add to the scores at a query."""
    model, trials = recalling.model, recalling.trials
    assert isinstance(model.cell, Stack)
    lower, upper = model.cell.layers
    assert isinstance(lower, Block)
    assert isinstance(upper, Block)
    x = trials.inputs[query.step]
    middle = lower.step(x, query.state[0])[0]
    last, upper.last = upper.last, nn.Identity()
    stream = upper.step(middle, query.state[1])[0]
    upper.last = last
    # the last norm divides by its size, and is a layer norm if it has a bias or centres its inputs
    centred = isinstance(last, nn.LayerNorm)
    size = (stream.var(-1, unbiased=False, keepdim=True) if centred else stream.square().mean(-1, keepdim=True)).sqrt()

    def score(part: Tensor) -> Tensor:
        part = part - part.mean(-1, keepdim=True) if centred else part
        scores = (part / size * last.weight) @ model.readout.weight.mT  # type: ignore
        return scores - scores.masked_fill(listed, 0).sum(1, keepdim=True) / (~listed).sum(1, keepdim=True)

    due = trials.targets[query.step].unsqueeze(1)
    others = listed.scatter(1, due, False)
    whole = score(stream)
    own = whole.gather(1, due)[:, 0]
    first, second = (score(part).gather(1, due)[:, 0] for part in (middle - lower.embed(x), stream - middle))
    moved = in_other_sequences(trials, query.step)
    held = own_parts(model, moved, affine_layers(model, moved.inputs), query.step)[1]
    signal = query.reads[1].signal
    change = (signal_of(recalling.layers[1], held, query.step) - signal).flatten(1).norm(dim=1)
    excess = own - (whole * others).sum(1) / others.sum(1)
    return Shares(first, second, excess, change / signal.flatten(1).norm(dim=1))


if __name__ == "__main__":
    main()
