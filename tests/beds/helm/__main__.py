"""`python -m tests.beds.helm`: get helm, and print where it is."""

from __future__ import annotations

import sys

from tests.beds.control_plane.golang import GoToolUnavailable
from tests.beds.helm import obtain_helm


def main() -> int:
    """Return 0, or 1 with the reason on stderr."""
    try:
        print(obtain_helm())
    except GoToolUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
