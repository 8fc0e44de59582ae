"""Shape annotations are checked at run time in every test."""

import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook("mnemoscope", "typecheck.checked")


@pytest.fixture(autouse=True)
def _one_thread_and_seed():
    # two workers share two cores; a fixed seed makes a failure repeatable
    torch.set_num_threads(1)
    torch.manual_seed(0)
