"""Shape annotations are checked at run time in every test."""

import pytest
import torch
import tyro  # noqa: F401 (it looks at builtins._ when imported, which a doctest may have filled with anything)
from jaxtyping import install_import_hook

install_import_hook("mnemoscope", "typecheck.checked")


@pytest.fixture(autouse=True)
def _one_thread_and_seed():
    # two workers share two cores; a fixed seed makes a failure repeatable
    torch.set_num_threads(1)
    torch.manual_seed(0)
