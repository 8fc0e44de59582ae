"""CoRelNet with as many parameters as ESBN (Kerg, C.7 Table 3 and Fig 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mnemoscope.replication.agreement import exactly
from mnemoscope.replication.claims import Claim, Row, Subject
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import NO_WORSE, make_contrast, over_tasks
from mnemoscope.studies.kerg2022.relational_grid import BASIC, FEW_STEPS, make_grid, network_on

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
FIG_5 = thesis("C.7 and Fig 5")


def _count(network: str, task: str, number: int) -> Claim:
    misprinted = (network, task) == ("corelnet-nhid", "same/diff 6")
    printed = MISPRINT if misprinted else number
    subject, source = network_on(network, task), thesis("C.7 Table 3")
    reason = "a misprint" if misprinted else ""
    return Claim(subject, "parameters", f"{printed:,}", source, exactly(printed), None, reason, by_construction=True)


MORE, FEWER = "more parameters do not degrade performance", "superior with much fewer parameters"


def _grid(tasks: Iterable[str], *networks: str) -> dict[Subject, dict[str, Any]]:
    """Return all networks on all tasks, and CoRelNet with a sparse map after its encoder.

    The strengths of the L1 penalty of the map are the published ones (Kerg, C.5 Fig 3).
    """
    sparse = {
        subject: changes | {"cell_options": {"l1": 5.0 if subject.task == "RMTS" else 1.0}}
        for subject, changes in make_grid(["corelnet-l1"], tasks).items()
    }
    return make_grid(networks, tasks) | sparse


class ParameterMatch(RelationalStudy):
    """Count the parameters of networks, and compare accuracies with many and with few parameters."""

    name = "parameter-match"
    title = "As many parameters for CoRelNet as for ESBN"
    question = "Is CoRelNet accurate because it has a tenth of ESBN's parameters, or does their number not matter?"
    claims = (
        *(
            _count(network, task, number)
            for task, numbers in TABLE.items()
            for network, number in zip(COUNTED, numbers, strict=True)
        ),
        *(make_contrast(MORE, FIG_5, task, ["corelnet-nhid"], ["corelnet"], NO_WORSE) for task in TABLE),
        over_tasks(FEWER, thesis("C.7 and Table 3"), "all seven tasks", [*TABLE], "corelnet", "esbn"),
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset("Smoke test: a few iterations of RMTS.", _grid(["RMTS"], *COUNTED), **FEW_STEPS),
        "cpu": preset(
            "As published: CoRelNet and its variants on seven tasks, five seeds; ESBN, which is slow, on the four "
            "basic tasks, one seed.",
            _grid(TABLE, "corelnet", "corelnet-nhid") | make_grid(["esbn"], BASIC),
            seeds=5,
            fewer_seeds={"esbn": 1},
        ),
        "paper": preset(
            "As published: all networks on all tasks, ten seeds, on a GPU.",
            _grid(TABLE, *COUNTED),
            seeds=10,
            device="cuda",
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
