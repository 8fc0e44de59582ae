"""Everything that has a name: cells, networks, tasks, lenses and studies, listed without importing torch.

To add one, write its file and an entry in the table of its kind: `cell_entries.py`, `network_entries.py`,
`task_entries.py`, `lens_entries.py` or `study_entries.py`. From outside, write a plugin (`plugins.py`,
docs/extending.md). The parts of these, such as recurrent matrices, optimisers and searches, are in `part_entries.py`.
The command line, the studies and the documentation read these tables.

A table holds names, descriptions and sources, and refers to the code that they name: a named architecture and its
published defaults are defined by a factory in `networks/`, and how it is trained by a preset in `config/presets/`.
"""

from mnemoscope.registry.cell_entries import OWN_READOUT as OWN_READOUT, cells as cells
from mnemoscope.registry.entry import Entry as Entry, Registry as Registry
from mnemoscope.registry.lens_entries import lenses as lenses
from mnemoscope.registry.network_entries import networks as networks
from mnemoscope.registry.part_entries import optimisers as optimisers, parts as parts, searches as searches
from mnemoscope.registry.plugins import (
    HINT as HINT,
    MissingPluginError as MissingPluginError,
    load_plugins as load_plugins,
    loaded_plugins as loaded_plugins,
    named_plugins as named_plugins,
    use_plugin as use_plugin,
)
from mnemoscope.registry.study_entries import studies as studies
from mnemoscope.registry.task_entries import RELATIONAL as RELATIONAL, tasks as tasks

REGISTRIES: dict[str, Registry] = {
    registry.kind: registry for registry in (cells, networks, tasks, lenses, studies, optimisers, searches, parts)
}
"""All registries by kind: "cell", "relational network", "task", "lens", "study", "optimiser", "search", "part"."""


def is_relational(task: str) -> bool:
    """Whether a task shows all objects of a problem together, to a network that compares them."""
    return RELATIONAL in tasks[task].tags


def learners(task: str) -> Registry:
    """Return the registry of what can learn a task: `networks` if the task is relational, else `cells`.

    >>> learners("rmts").kind, learners("copy").kind
    ('relational network', 'cell')
    """
    return networks if is_relational(task) else cells
