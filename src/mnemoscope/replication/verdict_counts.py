"""Numbers of claims by verdict and by cause, as parts of sentences that leave out zeros."""

from __future__ import annotations

from collections.abc import Mapping

from mnemoscope.base.plurals import listed
from mnemoscope.replication.verdicts import Verdict

VERBS = {
    Verdict.MATCHES: ("matches", "match"),
    Verdict.COMPATIBLE: ("is compatible", "are compatible"),
    Verdict.BETTER: ("is better", "are better"),
    Verdict.WORSE: ("is worse", "are worse"),
    Verdict.IN_PART: ("matches in part", "match in part"),
    Verdict.DIFFERS: ("differs", "differ"),
    Verdict.NOT_COMPARED: ("is not comparable", "are not comparable"),
    Verdict.NOT_RUN: ("was not run", "were not run"),
}
"""Verbs for one claim and for several claims, by verdict; in the order of a sentence."""
UNTESTED = "another recipe, or divergence"


def with_verb(number: int, singular: str, plural: str) -> str:
    """Return a number with the form of the verb that belongs to it.

    >>> with_verb(1, "differs", "differ"), with_verb(0, "differs", "differ")
    ('1 differs', '0 differ')
    """
    return f"{number} {singular if number == 1 else plural}"


def count_verdicts(count: Mapping[Verdict, int], remarks: Mapping[Verdict, str] | None = None) -> str:
    """Return how many claims have each verdict, with remarks in brackets; "" if there are none.

    >>> count_verdicts({Verdict.MATCHES: 5, Verdict.BETTER: 0, Verdict.DIFFERS: 1})
    '5 match and 1 differs'
    """
    remarks = {} if remarks is None else remarks
    parts = []
    for verdict, verbs in VERBS.items():
        if number := count.get(verdict, 0):
            remark = f" ({remarks[verdict]})" if verdict in remarks else ""
            parts.append(with_verb(number, *verbs) + remark)
    return listed(parts) if parts else ""


def count_causes(known: int, unknown: int, untested: int, verdicts: str = "last") -> str:
    """Return for how many claims that are worse, match in part or differ the cause is known; "" if there are none.

    >>> count_causes(2, 1, 0)
    'Of these last 3, the cause is known for 2 and unknown for 1.'
    >>> count_causes(2, 1, 0, "that differ")
    'Of the 3 that differ, the cause is known for 2 and unknown for 1.'

    Args:
        known: claims with a known cause.
        unknown: claims whose cause is unknown.
        untested: claims with a cause that nothing has tested.
        verdicts: which claims these are, after their number; "last": those at the end of the sentence before.

    """
    counted = {"known": known, "unknown": unknown, "untested": untested}
    causes = {name: number for name, number in counted.items() if number}
    if not causes:
        return ""
    untested_reason = f": {UNTESTED}" if untested else ""
    total = sum(causes.values())
    if verdicts == "last" and total == 1:
        return f"The cause of this last one is {listed(causes)}{untested_reason}."
    claims = f"these last {total}" if verdicts == "last" else f"the {total} {verdicts}"
    return f"Of {claims}, the cause is {listed(f'{name} for {n}' for name, n in causes.items())}{untested_reason}."
