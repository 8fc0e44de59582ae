"""The networks whose recall `benchmarks/recall.py` predicts: names, configurations, training.

    python benchmarks/recall_networks.py                 train all of them in runs/recall, on a GPU if there is one
    python benchmarks/recall_networks.py --only kda      those whose name begins so

Every network learns to recall 4 to 32 pairs of 128 keys and 64 values. A bare recurrence has one layer and one head of
12 keys and 24 values, its readout is linear, and each pair is one input. Blocks have the convolution, norms and gate of
their publication; key and value of a pair are two inputs. Wide blocks have 64 features and two heads, and learn from
lists of 1 to 16 pairs: some families do not learn the task otherwise.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

import mnemoscope as ms
from mnemoscope.training.run_folder import RunFolder

ROOT = Path("runs") / "recall"
BATCH, QUERIES = 128, 16
SIZES: dict[str, dict[str, Any]] = {
    "retnet": {"key_size": 12},
    "mamba2": {"state_size": 12},
    "gla": {"key_size": 12},
    "hgrn2": {"key_size": 12},
    "mlstm": {},
    "deltanet": {"key_size": 12},
    "gated-deltanet": {"key_size": 12},
    "kda": {"key_size": 12},
    "rwkv7": {},
}
"""Options of a family that give a head 12 keys; mLSTM and RWKV-7 have as many keys as values, 24."""
CONVOLVED = ("mamba2", "deltanet", "gated-deltanet", "kda", "rwkv7")
"""Families whose blocks have a convolution, which combines a key with the value after it in one layer."""
STACKED = ("retnet", "gla", "mamba2", "deltanet", "gated-deltanet")
"""Families that are trained with two layers."""
WIDE: dict[str, dict[str, Any]] = {
    "retnet, 2 wide layers": {"family": "retnet", "depth": 2, "heads": 2, "key_size": 32},
    "deltanet, wide convolution": {"family": "deltanet", "depth": 1, "heads": 2, "key_size": 24},
    "gla, 2 wide layers": {"family": "gla", "depth": 2, "heads": 2, "key_size": 24},
}
"""Options of the wide blocks, by name."""
SEEN_TWICE = ("retnet", "mamba2", "gla", "hgrn2", "mlstm", "deltanet", "gated-deltanet")
"""Families with two bare networks among those on which the form of the prediction was chosen; the others have one."""

FURTHER: dict[str, tuple[int, ...]] = {
    "kda, convolution": (2, 3, 4, 5, 6, 7),
    "retnet, 2 wide layers": (2, 3),
    "gla, 2 wide layers": (2,),
    "gated-deltanet, convolution": (2,),
    "mamba2, convolution": (2,),
    "deltanet, convolution": (2,),
    "retnet, 2 layers": (2,),
    "gla, 2 layers": (2,),
}
"""Further seeds, which were trained after the first test."""
EXAMINED = ("kda, convolution 2", "kda, convolution 3", "kda, convolution 4")
"""Those on which the error of KDA was examined."""

Stage = Literal["chosen", "first test", "second test"]


def stage_of(name: str) -> Stage:
    """Return whether the form of the prediction was chosen on a network, or it served to test that form.

    The networks of the first test served to correct the form, which the second test then tests.

    >>> stage_of("gla 1"), stage_of("kda 1"), stage_of("gla, 2 layers 0"), stage_of("gla, 2 wide layers 0")
    ('chosen', 'first test', 'chosen', 'first test')
    >>> stage_of("kda, convolution 4"), stage_of("kda, convolution 5")
    ('first test', 'second test')
    """
    kind, _, seed = name.rpartition(" ")
    if int(seed) in FURTHER.get(kind, ()) and name not in EXAMINED:
        return "second test"
    new = int(seed) > int(kind in SEEN_TWICE) or kind in WIDE or kind == "rwkv7, convolution"
    return "first test" if new else "chosen"


def configurations(device: str) -> dict[str, ms.RunConfig]:
    """Return the configurations by name, such as "gla 1" or "gla, 2 layers 0"; the first seeds of all come first."""
    made = {}
    for seed in range(3):
        for family, options in SIZES.items():
            made[f"{family} {seed}"] = _configuration(family, options, seed, device)
        for depth, families in ((1, CONVOLVED), (2, STACKED)):
            for family in families if seed < 2 else ():
                options = {"family": family, "depth": depth, "heads": 1, **SIZES[family]}
                name = f"{family}, {'convolution' if depth == 1 else '2 layers'} {seed}"
                made[name] = _configuration("blocks", options, seed, device, apart=True)
    for seed in range(2):
        for name, options in WIDE.items():
            made[f"{name} {seed}"] = _configuration("blocks", options, seed, device, apart=True, wide=True)
    further = {f"{kind} {seed}": (made[f"{kind} 0"], seed) for kind, seeds in FURTHER.items() for seed in seeds}
    return made | {name: replace(config, seed=seed) for name, (config, seed) in further.items()}


def _configuration(
    cell: str, options: dict[str, Any], seed: int, device: str, apart: bool = False, wide: bool = False
) -> ms.RunConfig:
    steps, rate = (4000, 3e-3) if wide else (3000, 5e-3) if apart else (2000, 1e-2)
    lists = {"fewest": 1, "most": 16} if wide else {}
    return ms.RunConfig(
        f"recall-{options.get('family', cell)}",
        task="key-value-recall",
        task_options={"queries": QUERIES, "apart": apart, **lists},
        cell=cell,
        cell_options=options,
        hidden_size=64 if wide else 24,
        learning_rate=rate,
        schedule="cosine",
        clip=1.0,
        steps=steps,
        batch_size=BATCH,
        evaluate_every=steps,
        checkpoint_every=1000 if wide else steps,
        seed=seed,
        device=device,  # type: ignore
        threads=1,
    )


def trained(root: Path = ROOT) -> dict[str, Path]:
    """Return the folders of the finished networks, by name."""
    found = {}
    for device in ("cuda", "cpu"):
        for name, config in configurations(device).items():
            folder = config.folder(root)
            if name not in found and RunFolder(folder).status == "finished":
                found[name] = folder
    return {name: found[name] for name in configurations("cpu") if name in found}


def main() -> None:
    """Train the networks that are not yet trained."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="train the networks whose name begins so")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--share", default="0/1", help="part of the networks: 1/3 is the second of three shares")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no network after this time")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    share, shares = (int(number) for number in options.share.split("/"))
    chosen = [case for case in configurations(options.device).items() if case[0].startswith(options.only)]
    start = time.perf_counter()
    for name, config in chosen[share::shares]:
        if time.perf_counter() - start > 60 * options.minutes:
            break
        result = ms.train(config, options.root, progress=False)
        print(f"{name}: loss {result.loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
