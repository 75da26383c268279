"""Real nodes for tests; `tests/conftest.py` names this file in `pytest_plugins`.

Where there can be none, the tests that ask for them are skipped, with the reason. Where only the programs cannot be
had, they fail under `CI=true`.
"""

from __future__ import annotations

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.real_node.binaries import NodeBinaries, NodeUnavailable, obtain_node
from tests.beds.real_node.requirements import missing


@pytest.fixture(scope="session")
def node_binaries() -> NodeBinaries:
    """What a node runs; `python -m tests.beds.real_node fetch` gets it beforehand."""
    if reasons := missing():
        pytest.skip(f"this machine can have no real nodes: {'; '.join(reasons)}")
    try:
        return obtain_node()
    except NodeUnavailable as reason:
        not_to_be_had(reason)
