"""Dynamical similarity by Mnemoscope and by dsa-metric, on the same data: distances and times.

    pip install dsa-metric==2.0.2
    python benchmarks/compare.py --keep linear     # or another part: noise, planted, matrices, inputs, times, ...

The data follow the tests and the tutorial of dsa-metric (commit 8cbddcf of github.com/mitchellostrow/DSA): uniform
noise, random matrices, noisy linear systems with the settings of the tutorial, and driven linear systems, generated
here by the same formulas; and planted systems. For the times, dsa-metric has its defaults, Adam with 1500 iterations
from two starts. It computes in float32. Both run on one thread and take turns, each on arrays in its own layout. The
times of the eigenvalues also have ours with the default rank.

Where our angle or distance differs by more than 0.001, the part also records two checks: the score that dsa-metric
itself gives to its own operators at the orthogonal matrix found here, and the best score of dsa-metric from further
starts.

InputDSA is compared by its operators and by its joint distance. That of dsa-metric 2.0.2 is aligned with `U V^T` of
`K2 K1^T = U S V^T`, where `V U^T` is the optimum; the output also has the distance at the optimum for its operators.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

import mnemoscope as ms
from common import folder, option_parser, write_json
from compare_examples import driven_system, examples, linear_system, ours, pairs
from mnemoscope.lenses.comparison.alignment import align_operators
from mnemoscope.lenses.comparison.input_operators import fit_input_operators

CLOSE = 1e-3
"""Difference above which both checks are made."""


def theirs(systems: list[np.ndarray], settings: dict[str, Any], score: str, iterations: int) -> Any:
    """Return the comparison of dsa-metric after its fit, with its distances in `sims`."""
    from DSA import DSA  # type: ignore

    torch.manual_seed(0)
    options = {"n_delays": settings["delays"], "rank": settings["rank"], "lamb": settings["ridge"]}
    peer = DSA(systems, score_method=score, iters=iterations, lr=5e-3, **options)
    peer.fit_score()
    return peer


def measure_agreement(name: str, iterations: int, restarts: int) -> dict[str, Any]:
    """Return the distances of both libraries for each score of an example."""
    systems, settings, scores = examples()[name]
    rows = []
    for score in scores:
        found = pairs(ours(systems, settings, score).distances)
        peer = theirs(systems, settings, score, iterations)
        row = {"score": score, "ours": found, "theirs": pairs(peer.sims.squeeze())}
        if score != "wasserstein":
            places = zip(*np.triu_indices(len(systems), 1), strict=True)
            row["checks"] = [
                check(peer.dmds[0][j].A_v, peer.dmds[0][i].A_v, score, iterations, restarts)
                | {"pair": [int(i), int(j)]}
                for (i, j), a, b in zip(places, row["ours"], row["theirs"], strict=True)
                if abs(a - b) > CLOSE
            ]
        rows.append(row)
    return {"settings": settings, "rows": rows}


def check(A: torch.Tensor, B: torch.Tensor, score: str, iterations: int, restarts: int) -> dict[str, float]:
    """Return the score of dsa-metric for its own operators at our optimum, and its best score from further starts."""
    from DSA.simdist import SimilarityTransformDist  # type: ignore

    A, B = A / A.norm(), B / B.norm()
    peer = SimilarityTransformDist(iters=iterations, lr=5e-3, score_method=score)
    peer.C_star = align_operators(A[None], B[None]).rotation[0].float()
    here = float(peer.score(A, B))
    best = np.inf
    for seed in range(1, restarts + 1):
        torch.manual_seed(seed)
        best = min(best, float(peer.fit_score(A.clone(), B.clone())))
    return {"their_score_at_our_optimum": here, "their_best_of_restarts": best}


def measure_matrices(iterations: int, restarts: int) -> list[dict[str, Any]]:
    """Return angles between random matrices, whose optimum is hard to find, and between conjugate matrices."""
    from DSA.simdist import SimilarityTransformDist  # type: ignore

    rows = []
    for seed in range(5):
        name, A, B = ("random", *torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(seed)).double())
        if seed == 4:  # as in the tests of dsa-metric: a reflection
            rng = np.random.default_rng(5)
            Q = np.linalg.qr(rng.standard_normal((10, 10)))[0]
            Q[:, 0] *= -np.sign(np.linalg.det(Q))
            name, A = "conjugate", torch.from_numpy(rng.random((10, 10)))
            B = torch.from_numpy(Q) @ A @ torch.from_numpy(Q).T
        torch.manual_seed(seed)
        peer = SimilarityTransformDist(iters=iterations, lr=5e-3, score_method="angular")
        angle = float(peer.fit_score(A.float().clone(), B.float().clone()))
        found = float(align_operators(A[None], B[None]).cosine.arccos())
        rows.append({"kind": name, "seed": seed, "ours": found, "theirs": angle})
        if abs(found - angle) > CLOSE:
            rows[-1] |= check(A.float(), B.float(), "angular", iterations, restarts)
    return rows


def measure_inputs() -> dict[str, Any]:
    """Return distances of InputDSA, and the largest difference between invariants of the operators."""
    from DSA import ControllabilitySimilarityTransformDist, SubspaceDMDc  # type: ignore

    rng = np.random.default_rng(5)
    systems = [driven_system(rng) for _ in range(2)]
    fitted = []
    for activity, inputs in systems:
        model = SubspaceDMDc(activity, inputs, n_delays=3, rank=8, lamb=1e-8)
        model.fit()
        fitted.append(model)
    tensors = [[torch.from_numpy(each.swapaxes(0, 1).copy()) for each in system] for system in systems]
    operators = [fit_input_operators(activity, inputs, 3, 8, 1e-8) for activity, inputs in tensors]
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
        rank=8,
        draws=0,
    )
    return {
        "operators": max(differences),
        "ours": float(found.distances[0, 1]),
        "minimum_of_their_operators": float(np.linalg.norm(K - U @ V @ L)),
        "theirs": float(joint),
    }


SIZES = (
    (2, 8, 100, 5, 3, 5),
    (6, 8, 100, 10, 3, 10),
    (20, 8, 100, 10, 3, 10),
    (6, 8, 100, 10, 10, 10),
    (2, 40, 100, 10, 3, 5),
    (6, 40, 100, 30, 10, 10),
    (2, 20, 200, 100, 5, 10),
)
"""Numbers of systems, trials, steps, units and delays, and rank."""
DRIVEN_SIZES = ((2, 10, 3, 5), (6, 10, 3, 5), (6, 10, 10, 10), (16, 8, 3, 8))
"""Numbers of driven systems, trials and delays, and rank; they have 5 units, 2 inputs and 100 steps."""


def measure_times(repeats: int) -> list[dict[str, Any]]:
    """Return the seconds of both libraries in turns: DSA with two scores, and InputDSA."""
    from DSA import InputDSA  # type: ignore

    rng, rows = np.random.default_rng(0), []
    for number, trials, steps, units, delays, rank in SIZES:
        systems = [linear_system(rng, trials, steps, units) for _ in range(number)]
        size = {"systems": number, "trials": trials, "steps": steps, "units": units, "delays": delays, "rank": rank}
        settings: dict[str, Any] = {"delays": delays, "rank": rank, "ridge": 1e-8}
        activity = [np.ascontiguousarray(system.swapaxes(0, 1)) for system in systems]  # our layout
        timed = ("wasserstein", "angular") if number == 2 and units <= 10 else ("wasserstein",)
        for score in timed:
            spent = in_turns(
                partial(ms.compare, activity, score=score, draws=0, **settings),
                partial(theirs, systems, settings, score, 1500),
                repeats if score == "wasserstein" else 1,
            )
            if score == "wasserstein":
                default: dict[str, Any] = {"delays": delays, "ridge": 1e-8}
                spent["ours_default_rank"] = median_seconds(
                    lambda: ms.compare(activity, score="wasserstein", draws=0, **default),  # noqa: B023
                    repeats,
                )
            rows.append({"method": "dsa", **size, "score": score, **spent})
            print(rows[-1], flush=True)
    for number, trials, delays, rank in DRIVEN_SIZES:
        driven = [driven_system(rng, trials) for _ in range(number)]
        ours_driven = [[torch.from_numpy(np.ascontiguousarray(part.swapaxes(0, 1))) for part in one] for one in driven]
        activity, inputs = zip(*ours_driven, strict=True)
        options: dict[str, Any] = {"delays": delays, "rank": rank, "draws": 0, "score": "euclidean"}

        def peer(driven: Any = driven, delays: int = delays, rank: int = rank) -> None:
            fit = {"n_delays": delays, "rank": rank, "lamb": 1e-8}
            InputDSA([x for x, _ in driven], [u for _, u in driven], dmd_config=fit).fit_score()

        spent = in_turns(
            lambda: ms.compare(list(activity), list(inputs), method="input-dsa", **options),  # noqa: B023
            peer,
            repeats,
        )
        size = {"systems": number, "trials": trials, "steps": 100, "units": 5, "delays": delays, "rank": rank}
        rows.append({"method": "input-dsa", **size, "score": "euclidean", **spent})
        print(rows[-1], flush=True)
    return rows


def in_turns(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the median seconds of both calls, and their ratio; the first turn warms up if there are several."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        spent.append((middle - start, time.perf_counter() - middle))
    first, second = np.median(spent[1:] or spent, axis=0)
    return {"ours": float(first), "theirs": float(second), "ratio": float(second / first)}


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of a call after one that warms up."""
    spent = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent[1:]))


def main() -> None:
    """Measure one part, print it and write it."""
    parser = option_parser(__doc__)
    parser.add_argument("part", choices=(*examples(), "matrices", "inputs", "times"), help="data, or times")
    parser.add_argument("--iterations", type=int, default=2000, help="iterations of dsa-metric for the agreement")
    parser.add_argument("--restarts", type=int, default=3, help="further starts of dsa-metric where it differs")
    parser.add_argument("--repeats", type=int, default=10, help="timed calls of each library")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    content: dict[str, Any] = {"peer": {"dsa-metric": version("dsa-metric")}}
    if options.part == "times":
        content["rows"] = measure_times(options.repeats)
    elif options.part == "inputs":
        content["inputs"] = measure_inputs()
    else:
        content["peer"] |= {"iterations": options.iterations, "restarts": options.restarts}
        if options.part == "matrices":
            content["matrices"] = measure_matrices(options.iterations, options.restarts)
        else:
            content |= measure_agreement(options.part, options.iterations, options.restarts)
    name = options.part.replace(", ", "_").replace(" ", "_")
    write_json(folder(options.keep) / f"compare_{name}.json", **content)
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
