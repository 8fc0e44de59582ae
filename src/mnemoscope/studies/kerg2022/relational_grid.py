"""Tasks of the relational studies, and the grids of networks and tasks that their presets train."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.claims import Subject, about
from mnemoscope.tasks.relational.game_rules import RULES

BASE = RunConfig(
    "relational",
    task="rmts",
    cell="corelnet",
    optimiser="adam",
    learning_rate=5e-4,
    steps=5000,
    batch_size=96,
    evaluate_every=100,
    evaluate_batches=4,
    checkpoint_every=1000,
    threads=1,
)
"""Kerg, C.1 Table 1, and the released code: Adam without a schedule, 5,000 batches; the final network is tested."""
FEW_STEPS: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "evaluate_batches": 1, "batch_size": 12}
"""Settings of a smoke test that takes seconds."""


def _task(task: str, m: int, batch_size: int = BASE.batch_size, **options: Any) -> dict[str, Any]:
    return {"task": task, "batch_size": batch_size, "task_options": {"m": m, **options}}


FAILING = {"occurs": ("bbc", "bcd"), "xoccurs": ("abb bbc", "bcd bbc", "abb bcd")}
"""Games with fewer of the rows for which the rule does not hold. The source gives no frequencies of these rows."""
_BASIC = {
    "same/diff": ("same-different", 98),
    "RMTS": ("rmts", 95),
    "dist3": ("distribution-of-n", 95),
    "identity rules": ("identity-rules", 95),
}
BASIC = tuple(_BASIC)
"""The four cognitive tests."""
TASKS: dict[str, dict[str, Any]] = {
    **{name: _task(task, m) for name, (task, m) in _BASIC.items()},
    **{
        f"{name} {feature}": _task(task, m, spurious=feature)
        for feature in ("colour", "mirror", "separated")
        for name, (task, m) in _BASIC.items()
    },
    "RMTS3": _task("rmts3", 94, 192),
    "same/diff 6": _task("same-different-6", 98, 384),
    "identity rules 4": _task("identity-rules-4", 94, 224),
    "identity rules 4 missing": _task("identity-rules-4", 94, 160, variant="missing"),
    "identity rules 4 without abaa": _task("identity-rules-4", 94, 192, variant="without abaa"),
    "identity rules 4 without abab": _task("identity-rules-4", 94, 192, variant="without abab"),
    "identity rules 4 flipped": _task("identity-rules-4", 94, 96, variant="flipped"),
    "identity rules 4 flipped missing": _task("identity-rules-4", 94, 64, variant="flipped missing"),
    "dist10": _task("distribution-of-n", 89, n=10),
    "dist10 restricted (thesis)": _task("distribution-of-n", 89, 32, n=10, restricted="thesis"),
    "dist10 restricted (code)": _task("distribution-of-n", 89, 32, n=10, restricted="code"),
    "comparison": _task("comparison", 95),
    "transitive comparison": _task("comparison", 95, transitive=True),
    **{rule: {"task": "relational-game", "task_options": {"rule": rule}} for rule in RULES},
    **{
        f"{rule} failing {rows}": {"task": "relational-game", "task_options": {"rule": rule, "failing": rows}}
        for rule, chosen in FAILING.items()
        for rows in chosen
    },
}
"""Tasks by name: the registered task, m, the batch size of the released code, and options.

m is the most shapes held out of 100: training keeps as many as the problems need. Batches of identity rules 4 have 32
problems for each trained rule. The source gives neither m nor the sizes of the
shapes for comparisons. Games hold out no shapes."""
HELD_OUT = (0, 50, 85)
"""Smaller numbers of held-out shapes (Webb et al. 2021; Kerg, C.8)."""


def network_on(network: str, task: str, m: int | None = None) -> Subject:
    """Return the subject of a trial: a network on a task of `TASKS`, with m shapes held out, by default the most.

    >>> network_on("corelnet", "RMTS").name
    'corelnet, RMTS, m 95'
    """
    m = TASKS[task]["task_options"].get("m") if m is None else m
    return about(network, task) if m is None else about(network, task, m=m)


def named(*networks: str) -> dict[str, dict[str, Any]]:
    """Return networks of the registry, with their published options, in the form that `make_grid` expects."""
    return {network: {"cell": network} for network in networks}


def make_grid(
    networks: Iterable[str] | Mapping[str, Mapping[str, Any]], tasks: Iterable[str], fewer: Sequence[int] = ()
) -> dict[Subject, dict[str, Any]]:
    """Return every network on every task with the most shapes held out, as the `networks` of a preset.

    Args:
        networks: names of the registry; or names, each with changes of the run configuration (`cell`, `cell_options`,
            ...), which override those of the task.
        tasks: names in `TASKS`.
        fewer: smaller numbers of held-out shapes, with which the networks are trained too.

    >>> grid = make_grid(["esbn"], ["RMTS"], fewer=[50])
    >>> {subject.name: changes["task_options"] for subject, changes in grid.items()}
    {'esbn, RMTS, m 50': {'m': 50}, 'esbn, RMTS, m 95': {'m': 95}}

    """
    networks = networks if isinstance(networks, Mapping) else named(*networks)
    grid = {}
    for task in tasks:
        for m in (*fewer, None):
            for network, changes in networks.items():
                subject = network_on(network, task, m)
                options = {**TASKS[task]["task_options"], **dict(subject.condition)}
                grid[subject] = {**TASKS[task], **changes, "task_options": options}
    return grid
