"""helm as a pytest fixture; `tests/conftest.py` names this file in `pytest_plugins`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.control_plane.gotool import GoToolUnavailable
from tests.beds.helm import obtain_helm, run_helm

Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """`run_helm` with a home of its own; where helm cannot be had, the test is skipped (under `CI=true` it fails)."""
    try:
        program = obtain_helm()
    except GoToolUnavailable as reason:
        not_to_be_had(reason)
    return partial(run_helm, program, home=tmp_path_factory.mktemp("helm"))
