"""Shape annotations are checked at run time in every test; without a GPU, its kernels run in Triton's interpreter."""

import gc
import os
from pathlib import Path

import hypothesis
import pytest
import torch
import tyro  # noqa: F401 (it looks at builtins._ when imported, which a doctest may have filled with anything)

from tests import typecheck
from tests.figures import leave_figures_empty
from tests.slow import skip_all_but_representatives

# all but the kernels, which are written in a language that only looks like Python
package = Path(__file__).parent.parent / "src" / "mnemoscope"
files = [*package.glob("*"), *(package / "kernels").glob("[!_]*.py")]
modules = [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]
checked = [name for name in modules if name != "mnemoscope.kernels" and ".triton_" not in name]
typecheck.install(checked)
# on a busy machine the garbage collector alone may take longer than hypothesis allows for its examples
hypothesis.settings.register_profile("busy", suppress_health_check=[hypothesis.HealthCheck.too_slow], deadline=None)
hypothesis.settings.load_profile("busy")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
# torch's own function takes a millisecond where there is no GPU: it keeps the stack for a GPU that may come
SEEDED = torch if torch.cuda.is_available() else torch.default_generator


@pytest.fixture(autouse=True)
def _one_thread_and_seed():
    # two workers share two cores; a fixed seed makes a failure repeatable
    torch.set_num_threads(1)
    SEEDED.manual_seed(0)


@pytest.fixture
def undrawn():
    with leave_figures_empty():
        yield


def pytest_configure(config):
    config.addinivalue_line("markers", "representatives(*cases): the cases that `make test` runs")


def pytest_collection_modifyitems(items):
    skip_all_but_representatives(items)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests stay until the end; without them a garbage collection takes a tenth of the time
