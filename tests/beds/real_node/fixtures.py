"""Real nodes for tests; `tests/conftest.py` names this file in `pytest_plugins`.

Where there can be none, the tests that ask for them are skipped, and the run's last lines say so and why. Where only
the programs cannot be had, they fail under `CI=true`.
"""

from __future__ import annotations

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.real_node.binaries import NodeBinaries, NodeUnavailable, obtain_node
from tests.beds.real_node.requirements import missing

REAL_NODES = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def node_binaries(request: pytest.FixtureRequest) -> NodeBinaries:
    """What a node runs; `python -m tests.beds.real_node fetch` gets it beforehand."""
    if reasons := missing():
        request.config.stash[REAL_NODES] = f"NOT RUN, this machine can have none: {'; '.join(reasons)}"
        pytest.skip("this machine can have no real nodes")
    try:
        binaries = obtain_node()
    except NodeUnavailable as reason:
        request.config.stash[REAL_NODES] = f"NOT RUN: {reason}"
        not_to_be_had(reason)
    request.config.stash[REAL_NODES] = str(binaries.folder)
    return binaries


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end whether tests ran on real nodes, where any asked for them."""
    if REAL_NODES in config.stash:
        terminalreporter.line(f"real nodes: {config.stash[REAL_NODES]}")
