"""Presets: configurations to start from, one TOML file each. The comment in each file gives the training time.

A preset names a task and an architecture of the registry and holds the settings of the training. It defines no
architecture: every option that it omits has the published default of the factory in `networks/`.
"""

from __future__ import annotations

from pathlib import Path

from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig


def _read_presets() -> dict[str, RunConfig]:
    """Return the presets by name, in the order of their tasks in the registry."""
    configs = [RunConfig.from_toml(path) for path in sorted(Path(__file__).parent.glob("*.toml"))]
    tasks = list(registry.tasks.entries)
    return {config.name: config for config in sorted(configs, key=lambda config: tasks.index(config.task))}


PRESETS = _read_presets()
"""Configurations to start from, by name."""
