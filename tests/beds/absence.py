"""What a test needs and this machine has not."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_to_be_had(reason: Exception) -> NoReturn:
    """Skip the test with `reason`; under `CI=true` fail it, where a skipped test would be taken for a good one."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))
