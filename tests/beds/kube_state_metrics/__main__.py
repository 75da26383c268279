"""`python -m tests.beds.kube_state_metrics`: get it, and print where it is."""

from __future__ import annotations

import sys

from tests.beds.control_plane.golang import GoToolUnavailable
from tests.beds.kube_state_metrics import obtain_kube_state_metrics


def main() -> int:
    """Return 0, or 1 with the reason on stderr."""
    try:
        print(obtain_kube_state_metrics())
    except GoToolUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
