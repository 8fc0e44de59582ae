"""What a configuration or a run has used, so that it can be cited."""

from __future__ import annotations

import re
from pathlib import Path

from torch import nn

from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig
from mnemoscope.registry.citations import Use
from mnemoscope.report.document import lenses_shown
from mnemoscope.training import RunFolder, build_model, build_task


def uses_of_config(config: RunConfig) -> list[Use]:
    """Cell, task, optimiser, and what the network is made of: its matrices, nonlinearity, past, memory.

    >>> [str(use) for use in uses_of_config(RunConfig("try", task="copy", cell="exprnn", hidden_size=8))]
    ['cell exprnn', 'task copy', 'optimiser adam', 'cell elman', 'part exponential', 'part modrelu']
    """
    kind = registry.learners(config.task).kind
    named = [Use(kind, config.cell), Use("task", config.task), Use("optimiser", config.optimiser)]
    return [*named, *parts_of(build_model(config, build_task(config)))]


def parts_of(model: nn.Module) -> list[Use]:
    """What registered parts and cells a network is made of."""
    known = {}
    for kind in ("part", "cell"):
        held = {entry.name: entry.load() for entry in registry.REGISTRIES[kind]}
        known |= {made: Use(kind, name) for name, made in held.items() if isinstance(made, type)}
    inside = (each for module in model.modules() for each in (module, *vars(module).values()))
    return sorted({known[type(each)] for each in inside if type(each) in known})


def uses_of_run(folder: str | Path) -> list[Use]:
    """What a run was asked for, and the lenses of its page, if it has one."""
    folder = Path(folder)
    config = RunFolder(folder).read_config()
    if re.fullmatch("[0-9a-f]{10}", folder.resolve().name) and folder.resolve().name != config.hash:
        raise ValueError(
            f"{folder / 'config.toml'} does not have the settings that its folder is named by: it was cut short or "
            f"edited, and what the run used is not known."
        )
    uses = uses_of_config(config)
    page = folder / "page.html"
    if not page.exists():
        return uses
    lenses = lenses_shown(page.read_text(encoding="utf-8", errors="replace"))
    if lenses is None:
        raise ValueError(
            f"{page} does not say what it shows: it was cut short, or made by another version of mnemoscope. Make it "
            f"again with `mnemoscope inspect {folder}`."
        )
    return [*uses, *(Use("lens", name) for name in lenses)]
