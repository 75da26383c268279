"""`python -m tests.beds.gitops`: get the program, and print where it is."""

from __future__ import annotations

import sys

from tests.beds.control_plane.golang import GoToolUnavailable
from tests.beds.control_plane.gomodule import ModuleUnavailable
from tests.beds.gitops import obtain_gitops


def main() -> int:
    """Return 0, or 1 with the reason on stderr."""
    try:
        print(obtain_gitops().program)
    except (GoToolUnavailable, ModuleUnavailable) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
