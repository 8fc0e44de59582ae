"""Dynamical similarity by Mnemoscope and by dsa-metric, on the same data: distances and times.

    pip install dsa-metric==2.0.2
    python benchmarks/compare.py --keep

The data follow the tests and the tutorial of dsa-metric: uniform noise, random matrices, and noisy linear systems that
are generated here by the same formulas; and planted systems. For the times, dsa-metric has its defaults, Adam with 1500
iterations from two starts. For the agreement it has more iterations. It computes in float32. Both run on one thread and
take turns.

InputDSA is compared by its operators and by its joint distance. That of dsa-metric 2.0.2 is aligned with `U V^T` of
`K2 K1^T = U S V^T`, where `V U^T` is the optimum; the output also has the distance at the optimum for its operators.
"""

from __future__ import annotations

import time
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

import mnemoscope as ms
from common import folder, option_parser, write_json
from compare_examples import driven_system, examples, linear_system, ours, pairs
from mnemoscope.lenses.comparison.alignment import align_operators
from mnemoscope.lenses.comparison.input_operators import fit_input_operators


def theirs(systems: list[np.ndarray], settings: dict[str, int], score: str, iterations: int) -> np.ndarray:
    """Return the distances of dsa-metric."""
    from DSA import DSA  # type: ignore

    torch.manual_seed(0)
    options = {"n_delays": settings["delays"], "rank": settings["rank"], "lamb": 1e-8}
    return DSA(systems, score_method=score, iters=iterations, lr=5e-3, **options).fit_score()


def measure_agreement(iterations: int) -> list[dict[str, Any]]:
    """Return the distances of both libraries."""
    rows = []
    for name, (systems, settings) in examples().items():
        scores = ("angular", "wasserstein") if rows else ("angular", "euclidean", "wasserstein")  # the same optimum
        for score in scores:
            found = ours(systems, settings, score)
            peer = theirs(systems, settings, score, iterations)
            rows.append(
                {"data": name, "score": score, **settings, "ours": pairs(found.distances), "theirs": pairs(peer)}
            )
    return rows


def measure_matrices(iterations: int) -> list[dict[str, Any]]:
    """Return angles between random matrices, whose optimum is hard to find, one pair for each seed."""
    from DSA.simdist import SimilarityTransformDist  # type: ignore

    rows = []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        A, B = torch.randn(2, 5, 5, generator=generator).double()
        torch.manual_seed(seed)
        peer = SimilarityTransformDist(iters=iterations, lr=5e-3, score_method="angular")
        angle = float(peer.fit_score(A.float().clone(), B.float().clone()))
        found = align_operators(A[None], B[None])
        rows.append({"seed": seed, "ours": float(found.cosine.arccos()), "theirs": angle})
    return rows


def measure_inputs() -> dict[str, Any]:
    """Return distances of InputDSA, and the largest difference between invariants of the operators."""
    from DSA import ControllabilitySimilarityTransformDist, SubspaceDMDc  # type: ignore

    rng = np.random.default_rng(5)
    systems = [driven_system(rng) for _ in range(2)]
    fitted = []
    for activity, inputs in systems:
        model = SubspaceDMDc(activity, inputs, n_delays=3, rank=5, lamb=1e-8)
        model.fit()
        fitted.append(model)
    tensors = [[torch.from_numpy(each.swapaxes(0, 1).copy()) for each in system] for system in systems]
    operators = [fit_input_operators(activity, inputs, 3, 5, 1e-8) for activity, inputs in tensors]
    differences = [
        float(np.abs(np.abs(own.numpy()) - np.abs(their)).max())
        for operator, model in zip(operators, fitted, strict=True)
        for own, their in ((operator.state, model.A_v), (operator.input, model.B_v))
    ]
    peer = ControllabilitySimilarityTransformDist(score_method="euclidean", compare="joint")
    joint = peer.fit_score(fitted[0].A_v, fitted[1].A_v, fitted[0].B_v, fitted[1].B_v)
    K, L = (peer.get_controllability_matrix(model.A_v, model.B_v) for model in fitted)
    U, _, V = np.linalg.svd(K @ L.T)
    found = ms.compare(
        [system[0] for system in tensors],
        [system[1] for system in tensors],
        method="input-dsa",
        score="euclidean",
        delays=3,
        rank=5,
        draws=0,
    )
    return {
        "operators": max(differences),
        "ours": float(found.distances[0, 1]),
        "minimum_of_their_operators": float(np.linalg.norm(K - U @ V @ L)),
        "theirs": float(joint),
    }


def measure_times(repeats: int) -> list[dict[str, Any]]:
    """Return the seconds of both libraries in turns, for operators of two sizes."""
    rng = np.random.default_rng(0)
    rows = []
    for number, rank in ((6, 5), (6, 10)):
        systems = [linear_system(rng, units=10) for _ in range(number)]
        settings = {"delays": 3, "rank": rank}
        for score in ("angular", "wasserstein"):
            spent: dict[str, list[float]] = {"ours": [], "theirs": []}
            for _ in range(repeats):
                start = time.perf_counter()
                ours(systems, settings, score)
                middle = time.perf_counter()
                theirs(systems, settings, score, 1500)
                spent["ours"].append(middle - start)
                spent["theirs"].append(time.perf_counter() - middle)
            seconds = {name: float(np.median(values)) for name, values in spent.items()}
            ratio = seconds["theirs"] / seconds["ours"]
            rows.append({"systems": number, "rank": rank, "score": score, **seconds, "ratio": ratio})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = option_parser(__doc__)
    parser.add_argument("--iterations", type=int, default=10_000, help="iterations of dsa-metric for the agreement")
    parser.add_argument("--repeats", type=int, default=1, help="timed calls of each library")
    parser.add_argument("--only", choices=("agreement", "times"), help="one part")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = folder(options.keep)
    if options.only != "times":
        content = {
            "peer": {"dsa-metric": version("dsa-metric"), "iterations": options.iterations},
            "distances": measure_agreement(options.iterations),
            "matrices": measure_matrices(options.iterations),
            "inputs": measure_inputs(),
        }
        write_json(path / "compare_agreement.json", **content)
        for row in content["distances"]:
            worst = max(abs(a - b) for a, b in zip(row["ours"], row["theirs"], strict=True))
            print(row["data"], row["score"], f"largest difference {worst:.1e}")
        print(*content["matrices"], content["inputs"], sep="\n")
    if options.only != "agreement":
        write_json(
            path / "compare_times.json", peer={"dsa-metric": version("dsa-metric")}, rows=measure_times(options.repeats)
        )


if __name__ == "__main__":
    main()
