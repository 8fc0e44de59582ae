"""Everything that determines a training run: one frozen dataclass, one TOML file. Imports no torch."""

from mnemoscope.config.presets import PRESETS as PRESETS
from mnemoscope.config.run_config import RunConfig as RunConfig
