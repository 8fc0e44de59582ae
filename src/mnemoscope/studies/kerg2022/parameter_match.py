"""CoRelNet with as many parameters as ESBN (Kerg, C.7 Table 3 and Fig 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.relational import (
    BASE,
    CAPTION,
    DRIFTS,
    EXTREME,
    FEW_STEPS,
    NO_WORSE,
    TASKS,
    RelationalStudy,
    at_extreme,
    make_contrast,
    make_grid,
    named,
    network_on,
)

COUNTED = ("corelnet", "corelnet-nhid", "esbn")
TABLE: dict[str, tuple[int, int, int]] = {
    "same/diff": (200418, 1910760, 1910757),
    "RMTS": (205026, 1910754, 1910757),
    "dist3": (211684, 1911784, 1911783),
    "identity rules": (211684, 1911784, 1911783),
    "same/diff 6": (205026, 1910754, 1910757),
    "RMTS3": (211170, 1910754, 1910757),
    "identity rules 4": (223974, 1912808, 1912809),
}
"""Parameters of CoRelNet, of CoRelNet with a wider hidden layer, and of ESBN."""
MISPRINT = 1910760
"""The table's number for CoRelNet-nhid on same/diff 6. No width yields it; it repeats the number for same/diff."""
SPARSE = {
    task: {"corelnet-l1": {"cell": "corelnet-l1", "cell_options": {"l1": 5.0 if task == "RMTS" else 1.0}}}
    for task in TABLE
}
"""CoRelNet with a sparse map after its encoder, with the published strengths of the penalty (Kerg, C.5 Fig 3)."""
MANY = {task: TASKS[task] for task in TABLE}
FEW = {task: TASKS[task] for task in ("same/diff", "RMTS", "dist3", "identity rules")}


def _counts() -> tuple[Claim, ...]:
    claims = []
    for task, row in TABLE.items():
        for network, number in zip(COUNTED, row, strict=True):
            misprinted = (network, task) == ("corelnet-nhid", "same/diff 6")
            value = f"{MISPRINT:,}, a misprint" if misprinted else f"{number:,}"
            subject, source = network_on(network, task, EXTREME[task]), Source("kerg2022thesis", "C.7 Table 3")
            claims.append(Claim(subject, "parameters", value, source, (number, number)))
    return tuple(claims)


CONTRASTS = tuple(
    pair
    for task in TABLE
    for pair in (
        make_contrast(
            "more parameters do not degrade performance",
            Source("kerg2022thesis", "C.7 and Fig 5"),
            task,
            EXTREME[task],
            ("corelnet-nhid",),
            ("corelnet",),
            NO_WORSE,
        ),
        make_contrast(
            "superior with much fewer parameters",
            Source("kerg2022thesis", "C.7 and Fig 5"),
            task,
            EXTREME[task],
            ("corelnet",),
            ("esbn",),
            reason=DRIFTS if task == "identity rules" else "",
        ),
    )
)


def _grid(tasks: Mapping[str, Mapping[str, object]], *networks: str) -> dict[Subject, dict[str, object]]:
    """Return all networks, and CoRelNet with a sparse map, on all tasks at their largest m."""
    sparse = {
        subject: changes
        for task in tasks
        for subject, changes in make_grid(SPARSE[task], {task: tasks[task]}, at_extreme({task: tasks[task]})).items()
    }
    return make_grid(named(*networks), tasks, at_extreme(tasks)) | sparse


class ParameterMatch(RelationalStudy):
    """Count the parameters of networks, and compare accuracies with many and with few parameters."""

    name = "parameter-match"
    title = "As many parameters for CoRelNet as for ESBN"
    question = "Is CoRelNet accurate because it has a tenth of ESBN's parameters, or does their number not matter?"
    base = replace(BASE, name="parameter-match")
    contrasts = CONTRASTS
    claims = (*_counts(), *(contrast.claim for contrast in CONTRASTS))
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: a few iterations of RMTS.",
            {"networks": _grid({"RMTS": TASKS["RMTS"]}, *COUNTED), "changes": FEW_STEPS},
        ),
        "cpu": Preset(
            "As published: CoRelNet and its variants on seven tasks, five seeds; ESBN, which is slow, on the four "
            "basic tasks, one seed.",
            {
                "networks": _grid(MANY, "corelnet", "corelnet-nhid") | make_grid(named("esbn"), FEW, at_extreme(FEW)),
                "changes": {},
                "seeds": {"esbn": (0,)},
            },
            (0, 1, 2, 3, 4),
        ),
        "paper": Preset(
            "As published: all networks on all tasks, ten seeds, on a GPU.",
            {"networks": _grid(MANY, *COUNTED), "changes": {"device": "cuda"}},
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021")
    caption = (
        f"{CAPTION} CoRelNet-nhid has as many parameters as ESBN, about nine times as many as CoRelNet. "
        "CoRelNet-L1 has a sparse map after its encoder."
    )

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        counts = []
        for name, trials in by_name(results).items():
            number = trials[0].result["parameters"]
            quantity = f"{name}: parameters"
            claim = self.find_claim("parameters", trials[0].trial.subject)
            if claim is None:
                counts.append(Row(quantity, "", f"{number:,}"))
            else:  # whatever the training was: the number of weights does not depend on it
                counts.append(claim.compare(quantity, [number], f"{number:,}"))
        return [*counts, *super().summarise(results)]


STUDY = ParameterMatch()
