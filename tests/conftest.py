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
from tests.slow import leave_out_slow

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():  # of all items: a fixture of this file would not be one of the docstrings of the package
    typecheck.started.tests += 1
    return (yield)


@pytest.fixture
def undrawn():
    with leave_figures_empty():
        yield


def pytest_configure(config):
    config.addinivalue_line("markers", "representatives(*cases): the cases that `make test` runs")
    config.addinivalue_line("markers", "slow: a test that only `make test-all` runs")


LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config, items):
    slow = leave_out_slow(items)
    config.stash[LEFT_OUT] = len(slow)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # in a worker of xdist, which prints no summary
        session.config.workeroutput["slow"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[LEFT_OUT] = node.workeroutput.get("slow", 0) if hasattr(node, "workeroutput") else 0


def pytest_terminal_summary(terminalreporter, config):
    if number := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{number:,} slow tests are left out; MNEMOSCOPE_SLOW=1 runs them.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadGroupScheduling

    class ByFunction(LoadGroupScheduling):
        """Give all cases of a test to the same worker: the scheduler's time grows with the square of the pieces."""

        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return scope.partition("[")[0] if scope == nodeid else scope

    return ByFunction(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests stay until the end; without them a garbage collection takes a tenth of the time
