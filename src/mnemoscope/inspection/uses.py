"""The registered parts that a configuration, a run or a page uses, for citations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from mnemoscope import registry
from mnemoscope.base.reading import read_bytes
from mnemoscope.config.run_config import RunConfig
from mnemoscope.registry.citations import Use, cited
from mnemoscope.report import NetworkPage
from mnemoscope.report.document import lenses_shown
from mnemoscope.training import RunFolder, build_model, build_task


def uses_of_config(config: RunConfig) -> list[Use]:
    """Return the cell, task and optimiser of a configuration, and the registered parts of its network.

    >>> [str(use) for use in uses_of_config(RunConfig("try", task="copy", cell="exprnn", hidden_size=8))]
    ['cell exprnn', 'task copy', 'optimiser adam', 'cell elman', 'part exponential', 'part modrelu']
    """
    kind = registry.learners(config.task).kind
    named = [Use(kind, config.cell), Use("task", config.task), Use("optimiser", config.optimiser)]
    return [*named, *parts_of(build_model(config, build_task(config)))]


def parts_of(model: nn.Module) -> list[Use]:
    """Return the registered parts and cells of a network."""
    known = {}
    for kind in ("part", "cell"):
        loaded = {entry.name: entry.load() for entry in registry.REGISTRIES[kind]}
        known |= {part: Use(kind, name) for name, part in loaded.items() if isinstance(part, type)}
    members = (member for module in model.modules() for member in (module, *vars(module).values()))
    return sorted({known[type(member)] for member in members if type(member) in known})


def uses_of_run(folder: str | Path) -> list[Use]:
    """Return the uses of the configuration of a run, and the lenses of its page and of its memory card, if any."""
    folder = Path(folder)
    config = RunFolder(folder).read_config()
    if re.fullmatch("[0-9a-f]{10}", folder.resolve().name) and folder.resolve().name != config.hash:
        raise ValueError(
            f"{folder / 'config.toml'} does not have the settings that its folder is named after: it was truncated or "
            f"edited, so it is unknown what the run used."
        )
    pages = {"inspect": folder / "page.html", "card": folder / "card.html"}
    lenses = [lens for command, page in pages.items() if page.exists() for lens in _lenses_of_page(page, command)]
    return [*uses_of_config(config), *(Use("lens", name) for name in dict.fromkeys(lenses))]


def _lenses_of_page(page: Path, command: str) -> list[str]:
    """Return the lenses that a page of a run lists; `command` makes such a page."""
    lenses = lenses_shown(read_bytes(page).decode(errors="replace"))
    if lenses is None:
        raise ValueError(
            f"{page} does not list its lenses: it was truncated, or made by another version of mnemoscope. Make it "
            f"again with `mnemoscope {command} {page.parent}`."
        )
    return lenses


def add_citations(page: NetworkPage, lenses: Sequence[str], config: RunConfig | None = None) -> NetworkPage:
    """Return the page with its lenses, and with the sources to cite for these and for the network."""
    lenses = list(dict.fromkeys(lenses))
    uses = [] if config is None else uses_of_config(config)
    return replace(page, lenses=lenses, cites=list(cited([*(Use("lens", name) for name in lenses), *uses])))
