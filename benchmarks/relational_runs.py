"""Time that CoRelNet takes to learn four cognitive tests by the published recipe, on two cores.

    python benchmarks/relational_runs.py --keep

5,000 iterations of batches of 96, with the largest number of shapes held out (Kerg, C.1 Table 1), evaluated and saved
every 100, as in `mnemoscope train rmts --task <task> --threads 2`. Seconds are those of the whole training, without the
import of torch. Then the network answers 1,000 problems with unseen shapes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from tempfile import TemporaryDirectory

from common import command, folder, option_parser, write_json
from mnemoscope.config import PRESETS
from mnemoscope.inspection.problems import accuracy
from mnemoscope.tasks import RelationalSequence
from mnemoscope.training import load_model, train

HELD_OUT = {"same-different": 98, "rmts": 95, "distribution-of-n": 95, "identity-rules": 95}
TARGET = 90.0
"""Largest number of seconds."""


@dataclass(frozen=True)
class Measurement:
    """One training."""

    task: str
    m: int
    """Shapes held out."""
    seconds: float
    unseen: float
    """Accuracy on 1,000 problems with held-out shapes."""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--steps", type=int, default=PRESETS["rmts"].steps, help="iterations of each training")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rows = [_measure(task, m, options.steps, options.threads) for task, m in HELD_OUT.items()]
    results = folder(options.keep)
    write_json(
        results / "relational_runs.json",
        threads=options.threads,
        steps=options.steps,
        rows=[asdict(row) for row in rows],
    )
    table = _table(rows, options.steps, options.threads)
    (results / "relational_runs.md").write_text(table)
    print(table)


def _measure(task: str, m: int, steps: int, threads: int) -> Measurement:
    config = replace(PRESETS["rmts"], task=task, task_options={"m": m}, steps=steps, threads=threads)
    with TemporaryDirectory() as root:
        run = train(config, root, progress=False)
        model, trained, _ = load_model(run.folder)
    assert isinstance(trained, RelationalSequence)
    return Measurement(task, m, run.seconds, accuracy(model, trained, config.seed, "test"))


def _table(rows: list[Measurement], steps: int, threads: int) -> str:
    lines = [
        f"`{command()}`: CoRelNet, {steps:,} iterations, {threads} threads, one seed.",
        "",
        "| task | shapes held out | seconds | unseen shapes |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.task} | {row.m} | {row.seconds:.1f} | {row.unseen:.1%} |" for row in rows]
    slowest = max(rows, key=lambda row: row.seconds)
    lines += ["", f"- The slowest takes {slowest.seconds:.0f} s ({slowest.task}); target: at most {TARGET:.0f}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
