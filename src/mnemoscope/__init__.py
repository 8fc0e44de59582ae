"""Mnemoscope builds recurrent networks, teaches them memory tasks, and shows what they remember.

    import mnemoscope as ms
    fp = ms.find_fixed_points(ms.Dynamics(torch.nn.GRU(3, 16)), "adaptive")

Names are loaded on first use, so that the command line can answer `--help` without waiting for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mnemoscope import analysis, cells, connectivity, kernels, registry, report, studies, tasks, training
    from mnemoscope.analysis import (
        Attractors,
        Basin,
        Cycles,
        Design,
        Dynamics,
        EnergyReport,
        EnergySurface,
        Evolution,
        FisherMemory,
        FixedPoints,
        LyapunovSpectrum,
        MatrixSystem,
        MemoryCapacity,
        MemoryKinds,
        MemoryLoad,
        Recall,
        Spectrum,
        TrajectoryMemory,
        Transients,
        VariableMemories,
        along_inputs,
        attractors,
        basin,
        between,
        classify_memories,
        design_memory,
        energy_report,
        energy_surface,
        find_cycles,
        find_fixed_points,
        fisher_along,
        fisher_memory,
        follow,
        lyapunov_spectrum,
        measured_memory_capacity,
        memory_capacity,
        memory_load,
        recall,
        spectrum,
        transients,
        variable_memories,
    )
    from mnemoscope.cells import EchoState, EpisodicMemory, Model, adapt, run_with_cache, scan
    from mnemoscope.training import fit_readout, force

_ROOMS = ("analysis", "cells", "connectivity", "kernels", "registry", "report", "studies", "tasks", "training")
_NAMES = {
    "fit_readout": "training",
    "force": "training",
    "EchoState": "cells",
    "Attractors": "analysis",
    "Basin": "analysis",
    "Cycles": "analysis",
    "Design": "analysis",
    "Dynamics": "analysis",
    "EnergyReport": "analysis",
    "EnergySurface": "analysis",
    "EpisodicMemory": "cells",
    "Evolution": "analysis",
    "FisherMemory": "analysis",
    "FixedPoints": "analysis",
    "LyapunovSpectrum": "analysis",
    "MatrixSystem": "analysis",
    "MemoryCapacity": "analysis",
    "MemoryKinds": "analysis",
    "MemoryLoad": "analysis",
    "Model": "cells",
    "Recall": "analysis",
    "Spectrum": "analysis",
    "TrajectoryMemory": "analysis",
    "Transients": "analysis",
    "VariableMemories": "analysis",
    "adapt": "cells",
    "attractors": "analysis",
    "along_inputs": "analysis",
    "basin": "analysis",
    "between": "analysis",
    "classify_memories": "analysis",
    "design_memory": "analysis",
    "energy_report": "analysis",
    "energy_surface": "analysis",
    "find_cycles": "analysis",
    "find_fixed_points": "analysis",
    "fisher_along": "analysis",
    "fisher_memory": "analysis",
    "lyapunov_spectrum": "analysis",
    "follow": "analysis",
    "measured_memory_capacity": "analysis",
    "memory_capacity": "analysis",
    "memory_load": "analysis",
    "recall": "analysis",
    "run_with_cache": "cells",
    "scan": "cells",
    "spectrum": "analysis",
    "transients": "analysis",
    "variable_memories": "analysis",
}

__all__ = [
    "Attractors",
    "Basin",
    "Cycles",
    "Design",
    "Dynamics",
    "EchoState",
    "EnergyReport",
    "EnergySurface",
    "EpisodicMemory",
    "Evolution",
    "FisherMemory",
    "FixedPoints",
    "LyapunovSpectrum",
    "MatrixSystem",
    "MemoryCapacity",
    "MemoryKinds",
    "MemoryLoad",
    "Model",
    "Recall",
    "Spectrum",
    "TrajectoryMemory",
    "Transients",
    "VariableMemories",
    "adapt",
    "along_inputs",
    "analysis",
    "attractors",
    "basin",
    "between",
    "cells",
    "classify_memories",
    "connectivity",
    "design_memory",
    "energy_report",
    "energy_surface",
    "find_cycles",
    "find_fixed_points",
    "fisher_along",
    "fisher_memory",
    "fit_readout",
    "follow",
    "force",
    "kernels",
    "lyapunov_spectrum",
    "measured_memory_capacity",
    "memory_capacity",
    "memory_load",
    "recall",
    "registry",
    "report",
    "run_with_cache",
    "scan",
    "spectrum",
    "studies",
    "tasks",
    "training",
    "transients",
    "variable_memories",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"mnemoscope.{name}")
    if name in _NAMES:
        return getattr(import_module(f"mnemoscope.{_NAMES[name]}"), name)
    raise AttributeError(f"mnemoscope has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
