"""Everything that determines a training run, as one frozen dataclass and one TOML file. Imports no torch."""

from mnemoscope.config.run_config import PRESETS, RunConfig

__all__ = ["PRESETS", "RunConfig"]
