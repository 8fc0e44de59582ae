"""Which lenses apply to a network, how they are run, and the sections of its page.

A section is a function or method that takes a result and returns a `Section`, written with `mnemoscope.report`. There
is one module for each topic. `network.py` inspects any network and `run.py` a trained run. Both begin with what the
network does (`behaviour.py`, `spans.py`) and for how long it remembers (`duration.py`), if `cost.py` finds that quick
enough, and use `mechanism.py` for fixed points and the lenses on them. A section reaches the page in one of two ways:

- A lens that applies to every network with fixed points names its function in the last column of its registry entry:
  `spectra.py` and `memory.py`.
- A lens for one kind of network is run by `run.py`, and its module holds both the run of the lens and its sections:
  `attention.py`, `tape.py`, `problems.py` and `relations.py`, `variables.py`, `tracking.py`, `intervention.py`,
  `closed_loop.py`, `populations.py` and `rank.py`.
"""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.inspection.network import inspect as inspect
    from mnemoscope.inspection.options import InspectionOptions as InspectionOptions
    from mnemoscope.inspection.result import Inspection as Inspection
    from mnemoscope.inspection.run import inspect_run as inspect_run

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
