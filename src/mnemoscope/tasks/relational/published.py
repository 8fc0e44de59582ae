"""The relational tasks by their published names, with as many shapes held out as in the source's hardest case."""

from __future__ import annotations

from mnemoscope.tasks.relational.basic import RMTS, DistributionOfN, IdentityRules, SameDifferent
from mnemoscope.tasks.relational.comparison import Comparison
from mnemoscope.tasks.relational.game_rules import RULES
from mnemoscope.tasks.relational.games import COLOUR_RULES, RelationalGame
from mnemoscope.tasks.relational.task import RelationalTask
from mnemoscope.tasks.relational.unseen import RMTS3, IdentityRules4, SameDifferent6

PUBLISHED: dict[str, RelationalTask] = {
    "same/diff": SameDifferent(),
    "RMTS": RMTS(),
    "dist3": DistributionOfN(),
    "identity rules": IdentityRules(),
    "RMTS3": RMTS3(),
    "same/diff 6": SameDifferent6(),
    "identity rules 4": IdentityRules4(),
    "identity rules 4 missing": IdentityRules4(variant="missing"),
    "identity rules 4 without abaa": IdentityRules4(variant="without abaa"),
    "identity rules 4 without abab": IdentityRules4(variant="without abab"),
    "identity rules 4 flipped": IdentityRules4(variant="flipped"),
    "identity rules 4 flipped missing": IdentityRules4(variant="flipped missing"),
    "dist10": DistributionOfN(n=10, m=89),
    "dist10 restricted, thesis": DistributionOfN(n=10, m=89, restricted="thesis"),
    "dist10 restricted, code": DistributionOfN(n=10, m=89, restricted="code"),
    "same/diff, colour": SameDifferent(spurious="colour"),
    "RMTS, colour": RMTS(spurious="colour"),
    "dist3, colour": DistributionOfN(spurious="colour"),
    "identity rules, colour": IdentityRules(spurious="colour"),
    "same/diff, mirror": SameDifferent(spurious="mirror"),
    "RMTS, mirror": RMTS(spurious="mirror"),
    "dist3, mirror": DistributionOfN(spurious="mirror"),
    "identity rules, mirror": IdentityRules(spurious="mirror"),
    "same/diff, separated": SameDifferent(spurious="separated"),
    "comparison": Comparison(),
    "transitive comparison": Comparison(transitive=True),
    **{f"game: {rule}": RelationalGame(rule) for rule in RULES},
    **{f"game: {rule}, stripes": RelationalGame(rule, "stripes") for rule in RULES if rule not in COLOUR_RULES},
}
