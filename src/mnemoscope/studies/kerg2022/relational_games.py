"""Relational games with unseen objects (Kerg, chapter 5 Table 1 and C.2 Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any, Literal

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import mean_share
from mnemoscope.replication.claims import Claim, Subject, about
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import OTHER_NETWORKS, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import (
    BARS,
    BETTER,
    PROTOTYPE,
    Contrast,
    difference_of,
    make_contrast,
    reported,
)
from mnemoscope.studies.kerg2022.relational_grid import BASE, FAILING, FEW_STEPS, make_grid, named, network_on
from mnemoscope.tasks import Split, Task
from mnemoscope.tasks.relational import RelationalGame
from mnemoscope.tasks.relational.game_rules import RULES
from mnemoscope.tasks.relational.games import COLOUR_RULES
from mnemoscope.tasks.relational_sequence import RelationalSequence

Percent = tuple[float, float]
"""Mean and standard deviation over ten seeds, in percent."""
TESTED = ("hexominoes", "stripes")
TABLE: dict[str, dict[str, tuple[Percent, ...]]] = {
    "corelnet": {
        "same": ((94.7, 5.4), (90.4, 9.0)), "between": ((96.6, 2.2), (93.1, 5.4)),
        "occurs": ((96.2, 2.2), (88.7, 5.3)), "xoccurs": ((92.2, 6.4), (83.6, 10.9)),
        "row matching": ((97.7, 0.8), (94.8, 1.3)), "colour/shape": ((47.2, 3.7),), "left-of": ((99.2, 0.7),),
    },
    "corelnet-t": {
        "same": ((98.7, 0.5), (98.4, 0.6)), "between": ((91.9, 3.3), (87.0, 4.7)),
        "occurs": ((91.6, 4.6), (79.3, 12.1)), "xoccurs": ((91.7, 6.9), (85.4, 6.4)),
        "row matching": ((95.4, 5.1), (90.5, 5.2)), "colour/shape": ((49.6, 0.8),), "left-of": ((97.6, 1.2),),
    },
    "esbn": {
        "same": ((60.9, 18.0), (60.5, 17.0)), "between": ((79.5, 2.7), (82.5, 4.5)),
        "occurs": ((74.3, 0.9), (73.3, 0.9)), "xoccurs": ((63.0, 0.8), (64.7, 2.1)),
        "row matching": ((81.1, 2.7), (76.8, 4.3)), "colour/shape": ((31.2, 10.1),), "left-of": ((49.9, 0.3),),
    },
    "predinet": {
        "same": ((99.1, 0.5), (97.7, 1.5)), "between": ((94.4, 3.6), (92.4, 5.4)),
        "occurs": ((92.9, 3.3), (87.4, 6.5)), "xoccurs": ((67.2, 8.7), (61.3, 6.3)),
        "row matching": ((50.3, 0.5), (50.5, 0.5)), "colour/shape": ((74.9, 10.6),), "left-of": ((94.9, 0.9),),
    },
    "transformer": {
        "same": ((96.3, 3.6), (93.6, 4.5)), "between": ((90.9, 4.2), (87.5, 6.4)),
        "occurs": ((95.9, 2.4), (88.7, 5.4)), "xoccurs": ((75.1, 11.9), (69.4, 13.0)),
        "row matching": ((50.3, 0.6), (50.4, 0.5)), "colour/shape": ((89.1, 2.9),), "left-of": ((96.0, 1.9),),
    },
    "mnm": {
        "same": ((97.3, 1.5), (95.5, 2.0)), "between": ((93.6, 2.3), (90.2, 5.2)),
        "occurs": ((84.9, 2.8), (77.0, 4.5)), "xoccurs": ((73.8, 6.6), (70.6, 6.2)),
        "row matching": ((49.9, 0.3), (49.8, 0.6)), "colour/shape": ((75.7, 12.1),), "left-of": ((97.5, 1.2),),
    },
    "lstm": {
        "same": ((96.4, 1.6), (90.3, 6.4)), "between": ((94.9, 3.3), (91.7, 4.5)),
        "occurs": ((92.2, 2.4), (79.8, 10.0)), "xoccurs": ((79.1, 2.8), (77.2, 5.9)),
        "row matching": ((50.1, 0.6), (50.2, 0.5)), "colour/shape": ((80.1, 7.0),), "left-of": ((97.2, 1.2),),
    },
    "ntm-extra-step": {
        "same": ((97.2, 1.7), (93.4, 5.3)), "between": ((96.3, 0.7), (93.5, 2.5)),
        "occurs": ((93.5, 8.1), (87.1, 11.0)), "xoccurs": ((84.2, 5.0), (81.7, 5.8)),
        "row matching": ((50.2, 0.5), (49.9, 0.5)), "colour/shape": ((88.0, 2.4),), "left-of": ((97.5, 0.9),),
    },
    "relation-network": {
        "same": ((92.9, 2.8), (83.7, 10.2)), "between": ((73.6, 8.2), (54.5, 5.7)),
        "occurs": ((71.2, 6.6), (54.6, 4.0)), "xoccurs": ((65.7, 5.5), (61.7, 7.4)),
        "row matching": ((50.5, 0.3), (50.4, 0.4)), "colour/shape": ((77.5, 9.2),), "left-of": ((51.0, 2.1),),
    },
}  # fmt: skip
"""Accuracy with hexominoes, then with stripes. The first five networks are in Table 1, the others in Table 2, which
repeats the rows of CoRelNet and CoRelNet-T."""
CHANCE = {game: 0.25 if game == "colour/shape" else 0.5 for game in TABLE["corelnet"]}
"""Accuracy of a guess. A range that holds it would match a network that has learned nothing."""
FIRST = ("corelnet", "corelnet-t", "esbn", "predinet", "transformer")
RELATIONAL = FIRST[:3]
SENSORY = tuple(f"{network}-sensory" for network in RELATIONAL)
SECOND = ("mnm", "lstm", "ntm-extra-step", "relation-network")
LONGER: dict[str, Any] = {"batch_size": 128, "steps": 5000, "schedule": "cosine"}
"""Larger batches, twice as many of them, and a learning rate that falls to 0. With the published recipe, several
relations distinguish colour and identity before shape, and training may end there."""
SEVERAL: dict[str, dict[str, Any]] = {"corelnet-multi": {"cell": "corelnet-multi", **LONGER}}
OTHER_MACHINE = named("ntm")
"""A Turing machine that answers at the last object from its controller and its reads, with the initial weights of
torch. Its first seed is 9 to 18 points below the table on between, xoccurs and colour/shape. The released machine is
not on between and colour/shape; on xoccurs the seeds of both machines vary."""
CONTROLS: dict[str, dict[str, Any]] = {
    "corelnet-longer": {"cell": "corelnet", **LONGER},
    "corelnet-multi-brief": {"cell": "corelnet-multi"},
}
"""Controls: one relation with the longer training, and several relations with the published training."""
BEYOND = {**SEVERAL, **named("abstractor")}
"""Networks that are not in the thesis: several relations in parallel, and symbols moved by relations."""
LONG: dict[str, dict[str, Any]] = {"lstm-long": {"cell": "lstm", "steps": 5000}}
"""An LSTM with twice the published number of batches."""
OTHER_ROWS = "no choice of the rows that fail the rule raises it into the range (preset causes)"
"""Result of the networks with other rows (`FAILING`), three seeds each."""
ENOUGH = 0.85
"""Lowest accuracy on colour/shape that matches the claim about several relations."""


def _source(network: str) -> Source:
    return thesis("chapter 5 Table 1" if network in FIRST else "C.2 Table 2")


class Games(RelationalStudy):
    """Train networks on games with pentominoes, and test them with hexominoes and stripes of other colours."""

    name = "relational-games"
    title = "Relational games with unseen objects"
    question = (
        "Which networks learn a relation among pentominoes that also holds for hexominoes and stripes in unseen "
        "colours? Accuracies within one published standard deviation, or better, match."
    )
    base = replace(BASE, steps=2500, batch_size=32, evaluate_batches=12)
    unseen: Mapping[str, tuple[str, str]] = {test_set: (test_set, test_set) for test_set in TESTED}
    other_recipes = SEVERAL | CONTROLS | LONG
    further_runs: Mapping[tuple[Subject, str], str] = {
        (network_on("transformer", "occurs"), "hexominoes"): OTHER_ROWS,
        (network_on("lstm", "occurs"), "hexominoes"): f"{OTHER_ROWS}, and twice the batches raise it to 89.6%",
        (network_on("lstm", "occurs"), "stripes"): "the mean of three seeds is in the range after twice the batches, "
        "79.7%, and if other rows fail the rule, 71.8% (preset causes)",
    }
    claims = (
        *(
            reported(network_on(network, game), test_set, percent, deviation, _source(network), CHANCE[game])
            for network, games in TABLE.items()
            for game, accuracies in games.items()
            for test_set, (percent, deviation) in zip(TESTED, accuracies, strict=False)
        ),
        Claim(
            network_on("corelnet-multi", "colour/shape"),
            "hexominoes",
            "a prototype: 87.4%",
            PROTOTYPE,
            mean_share(ENOUGH, "as the prototype"),
        ),
        make_contrast(
            "one relation cannot tell colour from shape",
            Source("mnemoscope", "why the tables' CoRelNet is at 47.2%"),
            "colour/shape",
            ["corelnet-multi"],
            ["corelnet-longer"],
        ),
        *(
            make_contrast(
                "at chance, but for networks that see relations alone",
                thesis("chapter 5 Table 1"),
                "row matching",
                ["corelnet", "corelnet-t"],
                [other],
            )
            for other in ("predinet", "transformer")
        ),
        Contrast(
            about("", "all games"),
            "relational networks against the same with sensory input",
            f"{BARS}sensory input degrades accuracy",
            thesis("C.8 Fig 12 right"),
            difference_of(BETTER),
            first=tuple(network_on(network, game) for game in RULES for network in RELATIONAL),
            second=tuple(network_on(network, game) for game in RULES for network in SENSORY),
        ),
    )
    watched: Mapping[str, Sequence[str]] = {
        "colour/shape": ("corelnet", *CONTROLS, "corelnet-multi", "transformer"),
        "row matching": ("corelnet", "transformer"),
    }
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations of two games.",
            make_grid(named("corelnet") | SEVERAL, ["same", "colour/shape"]),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "The networks of Table 1 as published, and CoRelNet with several relations; five seeds.",
            make_grid(named(*FIRST) | SEVERAL, RULES) | make_grid(CONTROLS, ["colour/shape"]),
            seeds=5,
        ),
        "paper": preset(
            "All networks of both tables as published, relational networks with sensory input, and networks that are "
            "not in the thesis; ten seeds, on a GPU.",
            make_grid(named(*FIRST, *SECOND, *SENSORY) | OTHER_MACHINE | BEYOND, RULES)
            | make_grid(CONTROLS, ["colour/shape"]),
            seeds=10,
            device="cuda",
        ),
        "causes": preset(
            "Runs that test why networks differ from the tables: an LSTM with twice the batches, and other rows for "
            "which occurs and xoccurs fail; three seeds, on a GPU.",
            make_grid(LONG, ["occurs", "xoccurs"])
            | make_grid(named(*FIRST, *SECOND), [f"xoccurs failing {rows}" for rows in FAILING["xoccurs"]])
            | make_grid(
                named("lstm", "ntm-extra-step", "transformer"), [f"occurs failing {rows}" for rows in FAILING["occurs"]]
            ),
            seeds=3,
            device="cuda",
        ),
    }
    cites = ("kerg2022", "shanahan2020", "webb2021", "altabaa2024", *OTHER_NETWORKS)
    caption = (
        "Accuracy on unseen objects, one dot per seed. Circles: published means. Diamonds: means on pentominoes. "
        "Dashed lines: accuracy of a guess. Bottom: accuracy on hexominoes during training, thin lines for seeds, "
        "thick lines for their median."
    )

    def accuracy(self, run: Finished) -> float:
        """Return the mean accuracy over the sets of objects that suit the game (C.8 Fig 12)."""
        return mean(run.result[test_set] for test_set in TESTED if test_set in run.result)

    def tests(self, task: Task) -> Mapping[str, tuple[Task, Split]]:
        assert isinstance(task, RelationalSequence)
        assert isinstance(task.relational, RelationalGame)
        tests: dict[str, tuple[Task, Split]] = {"validation": (task, "validation")}
        for test_set in test_sets(task.relational.rule):
            tests[test_set] = RelationalSequence(replace(task.relational, test_set=test_set)), "test"
        return tests


def test_sets(rule: str) -> tuple[Literal["hexominoes", "stripes"], ...]:
    """Return the sets of objects with which a game can be tested; stripes do not suit rules about colour."""
    return TESTED[:1] if rule in COLOUR_RULES else TESTED


STUDY = Games()
