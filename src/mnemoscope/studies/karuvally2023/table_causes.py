"""Causes of differences from the binding table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev

from mnemoscope.replication.claims import Claim
from mnemoscope.replication.means import FEWEST, scatter_reach


def explain_by_threshold(claim: Claim, by_threshold: Mapping[float, Sequence[float]]) -> str:
    """Return that the trainings of one threshold agree with the table, where the better of both does not; or nothing.

    Among two thresholds that agree, the one with the nearer mean is named.
    """
    assert claim.agreement is not None
    enough = {threshold: values for threshold, values in by_threshold.items() if len(values) >= FEWEST}
    gaps = {threshold: abs(mean(values) - float(claim.value)) for threshold, values in enough.items()}
    near = [
        threshold
        for threshold in sorted(gaps, key=gaps.__getitem__)
        if gaps[threshold] <= scatter_reach(claim.agreement, enough[threshold])
    ]
    if len(by_threshold) < 2 or not near:
        return ""
    values = enough[near[0]]
    return (
        f"the trainings whose stages end at {near[0]:g} alone have {mean(values):.2g} ± "
        f"{stdev(values) / sqrt(len(values)):.1g}: the table may lack the better ones"
    )
