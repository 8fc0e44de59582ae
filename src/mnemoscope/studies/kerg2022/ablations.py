"""Ablations of relational networks: sensory input, asymmetric similarity, random encoder (Kerg, Fig 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnemoscope.replication.agreement import exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.replication.verdicts import Obstacle, not_compared
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, OVER_M, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import BETTER, CURVES, NO_WORSE, Contrast, make_contrast, over_m
from mnemoscope.studies.kerg2022.relational_grid import BASIC, FEW_STEPS, HELD_OUT, make_grid

PLAIN = ("corelnet", "corelnet-t", "esbn")
KINDS = {
    "sensory": ("degrades where encoded objects reach the decoder too", "left", BETTER),
    "asymmetric": ("a symmetric dot product is essential", "middle", BETTER),
    "random": ("maintained by a random encoder", "right", NO_WORSE),
}
"""Ablations, each with the published statement, its panel of Fig 4 and the smallest difference that counts.

The difference is the accuracy of plain minus ablated networks; for "random", of random minus plain networks."""


def ablated(kind: str, networks: Sequence[str] = PLAIN) -> tuple[str, ...]:
    """Return the names of the networks with an ablation."""
    return tuple(f"{network}-{kind}" for network in networks)


def _networks(plain: Sequence[str]) -> tuple[str, ...]:
    return (*plain, *(network for kind in KINDS for network in ablated(kind, plain)))


def _contrast(kind: str, task: str) -> Contrast:
    statement, panel, least = KINDS[kind]
    sides = (ablated(kind), PLAIN) if kind == "random" else (PLAIN, ablated(kind))
    source = thesis(f"5.6 and Fig 4 {panel}")  # which averages over the three networks
    return make_contrast(statement, source, task, *sides, least, paired=True, averaged=True)


SENSORY = {task: _contrast("sensory", task) for task in BASIC}
LEAST = "task that suffers least from sensory input"


class Ablations(RelationalStudy):
    """Train ablated CoRelNet, CoRelNet-T and ESBN on the four cognitive tests."""

    name = "ablations"
    title = "What relational networks need"
    question = (
        "What lets a network solve tasks with unseen shapes: a decoder that does not see the objects, a symmetric "
        "similarity, or a learned encoder?"
    )
    claims = (
        *SENSORY.values(),
        *(_contrast(kind, task) for kind in ("asymmetric", "random") for task in BASIC),
        *(
            over_m(f"{CURVES}accuracy falls where shapes are held out", thesis(place), task, ablated(kind), falls=True)
            for kind, place in (("sensory", "C.8 Fig 7"), ("asymmetric", "C.8 Fig 9"))
            for task in BASIC
        ),
        *(
            make_contrast(
                f"{CURVES}a random encoder suffices at every m",
                thesis("C.8 Fig 8"),
                task,
                ablated("random"),
                PLAIN,
                NO_WORSE,
                m=0,
                paired=True,
            )
            for task in BASIC
        ),
        Claim(EVERYTHING, LEAST, "dist3", thesis("5.8 and Fig 4 left"), exactly(1, "the named task")),
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations of CoRelNet on one task.",
            make_grid(_networks(["corelnet"]), ["same/diff"]),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "As published, with the most shapes held out, but without ESBN, which is slow; two seeds.",
            make_grid(_networks(["corelnet", "corelnet-t"]), BASIC),
            seeds=2,
        ),
        "paper": preset(
            "As cpu, with ESBN, and also with no shapes held out; ten seeds as published, on a GPU.",
            make_grid(_networks(PLAIN), BASIC, fewer=[0]),
            seeds=10,
            device="cuda",
        ),
        "published": preset(
            "Fig 7 to 9: as paper, at all m.", make_grid(_networks(PLAIN), BASIC, HELD_OUT), seeds=10, device="cuda"
        ),
    }
    cites = ("kerg2022", "webb2021", "webb2020")
    caption = CAPTION + OVER_M

    def contrast_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows of the contrasts, and the task that suffers least from sensory input."""
        rows = super().contrast_rows(results)
        measured = {task: self.measure_contrast(results, contrast) for task, contrast in SENSORY.items()}
        lost = {task: next(iter(result.gains.values())) for task, result in measured.items() if result is not None}
        if len(lost) == len(SENSORY):
            least = min(lost, key=lambda task: lost[task].gain)
            ours = f"{least}, {100 * lost[least].gain:.1f} points"
            row = self.compare(results, self.claim(LEAST), [float(least == "dist3")], ours)
            rivals = [task for task in lost if task != least and lost[task].low < lost[least].high]
            if rivals and row.verdict.compared:
                reason = f"other seeds may give {' or '.join(rivals)}"
                row = replace(row, judgement=not_compared(Obstacle.UNDECIDED, reason))
            rows.append(row)
        return rows


STUDY = Ablations()
