"""Recall of many pairs, predicted from interference without a fit, and by Fisher memory, for networks of many families.

    python benchmarks/recall_networks.py        train the networks first, in runs/recall
    python benchmarks/recall.py --keep          predict, measure, write benchmarks/results/recall.{json,md,png}

`--share 1/3` measures a third of them and `--only "kda, convolution"` those whose name begins so;
`--pairs 4 16` prints the accuracies at these numbers of pairs, with the answers that turn in another sequence, and
writes nothing;
`--merge FILES` puts the files together, where a network of a later file replaces that of an earlier one.

For every network and every number of pairs, the table compares the measured accuracy with four predictions, from the
crudest to the one of `ms.recall_interference`:

- mean ratio: the closed form at the mean over queries of the ratio of signal to interference;
- ratio: the same at the ratio of each query, then averaged;
- Gaussian: interference as a Gaussian of its true covariance, through the norms, gates and readout of the network;
- drawn: the interference that similar queries of other sequences meet, scaled to the power of this one.

The Fisher memory of a stored pair, with noise in every number of the state, is `w_s^T C^-1 w_s` after the last pair, in
units of the mean squared length of the keys. It is computed for networks of one layer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import mnemoscope as ms
from common import command, folder, option_parser, write_json
from mnemoscope.cells import affine_layers
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.lenses.interference.ratio import accuracy_at
from mnemoscope.tasks import KeyValueRecall
from mnemoscope.training import load_model
from recall_networks import ROOT, configurations, stage_of, trained

PAIRS = (4, 8, 12, 16, 24, 32, 48, 64)
METHODS = ("mean ratio", "ratio", "Gaussian", "drawn")
SEED = 1000
"""Seed of the test sequences; training uses 0 to 2."""
GUESSING = 0.05
"""Accuracy at the fewest pairs below which a network has not learned the task."""


def main() -> None:
    """Predict and measure, or merge earlier measurements."""
    parser = option_parser(__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the trained networks")
    parser.add_argument("--sequences", type=int, default=128, help="test sequences of each number of pairs")
    parser.add_argument("--draws", type=int, default=8, help="exchanges of the values of each sequence")
    parser.add_argument("--share", default="0/1", help="part of the networks: 1/3 is the second of three shares")
    parser.add_argument("--only", default="", help="measure the networks whose name begins so")
    parser.add_argument(
        "--pairs", type=int, nargs="+", help="print the accuracy at these numbers of pairs, write nothing"
    )
    parser.add_argument("--merge", type=Path, nargs="*", help="JSON files of several shares, instead of measuring")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = folder(options.keep)
    if options.merge:
        parts = [json.loads(path.read_text()) for path in options.merge]
        latest = {each["name"]: each for part in parts for each in part["networks"]}
        networks = sorted(latest.values(), key=lambda each: each["order"])
        sequences = parts[0]["sequences"]
    else:
        share, shares = (int(number) for number in options.share.split("/"))
        found = [case for case in trained(options.root).items() if case[0].startswith(options.only)]
        if options.pairs:
            for name, path in found[share::shares]:
                print(
                    f"{name}: {printed(predict(path, options.pairs, options.sequences, options.draws)[0])}", flush=True
                )
            return
        sequences, places = options.sequences, list(configurations("cpu"))
        networks = [
            measured(places.index(name), name, path, sequences, options.draws) for name, path in found[share::shares]
        ]
        if shares > 1:
            write_json(results / f"recall.{share}.json", sequences=sequences, networks=networks)
            return
    write_json(results / "recall.json", sequences=sequences, networks=networks)
    (results / "recall.md").write_text(report(networks, sequences))
    draw(networks).savefig(results / "recall.png", dpi=110)
    print(f"Written to {results}/recall.{{json,md,png}}")


def predict(
    path: Path, numbers: Iterable[int], sequences: int, draws: int
) -> tuple[ms.RecallInterference, ms.Model, dict[int, ms.RecallTrials], int]:
    """Return the prediction at some numbers of pairs, with the network, its trials and its number of keys."""
    model, task, _ = load_model(path)
    assert isinstance(task, KeyValueRecall)
    trials = {}
    for pairs in numbers:
        batch = task.at(pairs).batch(sequences, SEED, 0, "test")
        trials[pairs] = ms.RecallTrials(batch.inputs, batch.targets, task.sources(batch))
    return ms.recall_interference(model, trials, draws=draws), model, trials, task.keys


def printed(recall: ms.RecallInterference) -> str:
    """Return the accuracies and the answers that turn in another sequence, as one line."""
    return (
        f"measured {rounded(recall.measured.mean(1))}, predicted {rounded(recall.predicted.mean(1))} at {recall.pairs} "
        f"pairs, rms {100 * recall.rms:.1f} points; {float(recall.turned.mean()):.1%} of the answers at the fewest turn"
    )


def measured(order: int, name: str, path: Path, sequences: int, draws: int) -> dict[str, Any]:
    """Return measured and predicted accuracies of one network."""
    recall, model, trials, keys = predict(path, PAIRS, sequences, draws)
    mean_ratio = recall.ratios.flatten(1).nanmean(1)
    low, high = recall.interval()
    predictions = {
        "mean ratio": accuracy_at(mean_ratio, recall.dimension, recall.classes),
        "ratio": recall.closed_form.mean(1),
        "Gaussian": recall.gaussian.mean(1),
        "drawn": recall.predicted.mean(1),
    }
    family, _, kind = name.rpartition(" ")[0].partition(", ")
    row = {
        "order": order,
        "name": name,
        "family": family,
        "kind": kind or "bare",
        "turned": float(f"{float(recall.turned.mean()):.4g}") if len(recall.layers) > 1 else None,
        "run": path.name,
        "layer": recall.recalling_layer,
        "measured": rounded(recall.measured.mean(1)),
        "interval": [rounded(low), rounded(high)],
        "predicted": {method: rounded(accuracy) for method, accuracy in predictions.items()},
        "same sign": rounded(recall.same_sign),
        "median ratio": rounded(recall.median_ratio),
        "without": [rounded(accuracy) for accuracy in recall.without.nanmean(2).T],
        "listed": rounded(torch.stack([listed(model, given, keys) for given in trials.values()])),
        "fisher": fisher(model, trials) if len(recall.layers) == 1 else None,
    }
    print(f"{name}: {recall.summary()}", flush=True)
    return row


@torch.no_grad()
def fisher(model: ms.Model, trials: dict[int, ms.RecallTrials]) -> list[float]:
    """Return the mean Fisher memory of a stored pair after the last pair, for each number of pairs."""
    found = []
    for given in trials.values():
        [layer] = affine_layers(model, given.inputs)
        step, sources = given.query_steps()[0], given.sources[given.asked].unique()
        stored = layer.first_steps(step, torch.arange(given.inputs.shape[1]))
        J = ms.fisher_memory(stored).curve.flip(-1)  # (batch, heads, steps); the curve begins with the newest write
        keys = stored.parts.keys.abs().square().sum(-1).mean(0).unsqueeze(-1)
        found.append(float((J / keys)[..., sources].mean()))
    return [float(f"{J:.4g}") for J in found]


@torch.no_grad()
def listed(model: ms.Model, trials: ms.RecallTrials, keys: int) -> Tensor:
    """Return the share of answers, right or wrong, that are values of the list."""
    sequence = trials.asked.nonzero()[:, 1]
    shown = trials.inputs[..., keys:].any(0)  # (batch, values)
    return shown[sequence, model(trials.inputs)[0].argmax(-1)[trials.asked]].double().mean()


def rounded(numbers: Tensor) -> list[float]:
    """Return numbers with four digits."""
    return [float(f"{float(number):.4g}") for number in numbers]


def learned(networks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the networks that recall four pairs better than by guessing."""
    return [each for each in networks if each["measured"][0] > GUESSING]


def rms(networks: list[dict[str, Any]], method: str) -> float:
    """Return the root mean square difference of a prediction from the measured accuracy, in points."""
    errors = [np.subtract(each["predicted"][method], each["measured"]) for each in networks]
    return 100 * float(np.sqrt(np.mean(np.square(errors))))


def report(networks: list[dict[str, Any]], sequences: int) -> str:
    """Return the tables."""
    known = learned(networks)
    stages = ("chosen", "first test", "second test")
    old, new, further = ([each for each in known if stage_of(each["name"]) == stage] for stage in stages)
    lines = [
        "# Recall of many pairs, predicted from interference",
        "",
        f"`{command()}`: {len(known)} networks that learned the task, {len(PAIRS)} numbers of pairs each, "
        f"{sequences} test sequences of 16 queries. Nothing is fitted to the accuracies. Same sign: the share of the "
        "interference whose weight has the sign of the signal, at 16 pairs. The last columns are the rms difference "
        "from the measured accuracy, in points; worst is the largest of a single network, drawn.",
        "",
        "## Networks on which the form of the prediction was chosen",
        "",
        *table(old),
        "",
        "## New networks",
        "",
        "Other seeds and recipes, measured after the form was chosen. The part of a value in a convolution was "
        "corrected on them.",
        "",
        *table(new),
        "",
        "## Second test",
        "",
        "Networks that were trained after this correction, which changed nothing since.",
        "",
        *table(further),
        "",
        "## All networks",
        "",
        *by_family(known),
        "",
        *by_layer(known),
        "",
        *correlations(known),
        "",
        *of_each(known),
    ]
    failed = [each["name"] for each in networks if each not in known]
    if failed:
        lines += ["", f"Did not learn the task, and are left out: {', '.join(failed)}."]
    return "\n".join(lines) + "\n"


def table(networks: list[dict[str, Any]]) -> list[str]:
    """Return the accuracies and errors of every kind of network."""
    groups = {(each["family"], each["kind"]): None for each in networks}
    lines = [
        f"| family | network | seeds | measured at 4, 16, 32, 64 pairs | same sign | {' | '.join(METHODS)} | worst |",
        "|---|---|---|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for family, kind in groups:
        group = [each for each in networks if (each["family"], each["kind"]) == (family, kind)]
        accuracy = np.mean([each["measured"] for each in group], 0)
        shown = ", ".join(f"{accuracy[PAIRS.index(pairs)]:.3f}" for pairs in (4, 16, 32, 64))
        same = np.mean([each["same sign"][PAIRS.index(16)] for each in group])
        lines.append(f"| {family} | {kind} | {len(group)} | {shown} | {same:.0%} | {_errors(group)} |")
    return [*lines, f"| all | | {len(networks)} | | | {_errors(networks)} |"]


def by_family(networks: list[dict[str, Any]]) -> list[str]:
    """Return the errors of each family, over networks of all kinds."""
    families = dict.fromkeys(each["family"] for each in networks)
    lines = [
        f"| family | networks | {' | '.join(METHODS)} | worst |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for family in families:
        group = [each for each in networks if each["family"] == family]
        lines.append(f"| {family} | {len(group)} | {_errors(group)} |")
    return lines


def by_layer(networks: list[dict[str, Any]]) -> list[str]:
    """Return, for networks of several layers and those that hardly recall, what the answers at four pairs rest on."""
    lines = [
        "| network | right at 4 pairs | predicted | difference | answers that turn | value of the list "
        "| right without the value asked for, by layer |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in networks:
        if len(each["without"]) > 1 or each["measured"][0] < 0.5:
            without = ", ".join(f"{accuracy[0]:.3f}" for accuracy in each["without"])
            right, predicted = each["measured"][0], each["predicted"]["drawn"][0]
            turned = "" if each["turned"] is None else f"{each['turned']:.3f}"
            lines.append(
                f"| {each['name']} | {right:.3f} | {predicted:.3f} | {predicted - right:+.3f} | {turned} "
                f"| {each['listed'][0]:.3f} | {without} |"
            )
    return lines


def _errors(networks: list[dict[str, Any]]) -> str:
    """Return the rms difference of each method, and that of the network which is predicted worst, as cells."""
    worst = max((rms([each], "drawn") for each in networks), default=float("nan"))
    return " | ".join(f"{error:.1f}" for error in (*(rms(networks, method) for method in METHODS), worst))


def correlations(networks: list[dict[str, Any]]) -> list[str]:
    """Return the correlations of the measured accuracy with the predictions and with Fisher memory."""
    measured = np.concatenate([each["measured"] for each in networks])
    lines = ["| prediction of the accuracy | points | correlation |", "|---|---|---|"]
    for method in METHODS:
        predicted = np.concatenate([each["predicted"][method] for each in networks])
        lines.append(f"| {method} | {len(measured)} | {np.corrcoef(measured, predicted)[0, 1]:.3f} |")
    single = [each for each in networks if each["fisher"]]
    if not single:
        return lines
    measured = np.concatenate([each["measured"] for each in single])
    for name, memory in fisher_points(single).items():
        lines.append(f"| {name} | {len(measured)} | {np.corrcoef(measured, memory)[0, 1]:.2f} |")
    return lines


def fisher_points(networks: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return Fisher memory per pair and in total, for each network and number of pairs."""
    per_pair = np.concatenate([each["fisher"] for each in networks])
    total = np.concatenate([np.multiply(each["fisher"], PAIRS) for each in networks])
    return {"Fisher memory of a pair": per_pair, "Fisher memory of all pairs": total}


def of_each(networks: list[dict[str, Any]]) -> list[str]:
    """Return the measured and the predicted accuracy of every network."""
    lines = [f"| network | | {' | '.join(map(str, PAIRS))} | rms |", "|---|---|" + "---|" * (len(PAIRS) + 1)]
    for each in networks:
        for label, accuracy in (("measured", each["measured"]), ("drawn", each["predicted"]["drawn"])):
            numbers = " | ".join(f"{number:.3f}" for number in accuracy)
            name, error = (each["name"], "") if label == "measured" else ("", f"{rms([each], 'drawn'):.1f}")
            lines.append(f"| {name} | {label} | {numbers} | {error} |")
    return lines


def draw(networks: list[dict[str, Any]]) -> Any:
    """Draw predicted against measured accuracy by three methods, and accuracy against Fisher memory."""
    known = learned(networks)
    figure = new_figure(9, 5.6)
    axes = figure.subplots(2, 3)
    colours = [LIGHT[name] for name in ("stable", "saddle-1", "saddle-2", "unstable", "marginal", "slow", "saddle-3")]
    families = list(dict.fromkeys(each["family"] for each in known))
    styles = {name: (colours[i % len(colours)], "ox^"[i // len(colours)]) for i, name in enumerate(families)}
    for place, method in zip(axes.flat, METHODS, strict=False):
        for each in known:
            colour, marker = styles[each["family"]]
            place.plot(each["measured"], each["predicted"][method], marker, color=colour, markersize=3, alpha=0.7)
        place.plot([0, 1], [0, 1], color=LIGHT["muted"], linewidth=0.8)
        title = f"{method}: rms {rms(known, method):.1f} points"
        place.set(xlabel="measured", ylabel="predicted", title=title, xlim=(0, 1.02), ylim=(0, 1.02))
    single = [each for each in known if each["fisher"]]
    for place, scale, name in ((axes.flat[4], 1, "of a pair"), (axes.flat[5], np.array(PAIRS), "of all pairs")):
        for each in single:
            colour, marker = styles[each["family"]]
            memory = np.multiply(each["fisher"], scale)
            place.plot(memory, each["measured"], marker, color=colour, markersize=3, alpha=0.7)
        place.set(
            xlabel=f"Fisher memory {name}", ylabel="measured", xscale="log", title="Fisher memory", ylim=(0, 1.02)
        )
    for name, (colour, marker) in styles.items():
        axes.flat[5].plot([], [], marker, color=colour, markersize=4, label=name)
    figure.legend(loc="outside lower center", ncols=len(styles), frameon=False, fontsize=7)
    for place in axes.flat:
        style_axes(place, LIGHT, 8)
    return figure


if __name__ == "__main__":
    main()
