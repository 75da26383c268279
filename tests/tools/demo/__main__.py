"""`python -m tests.tools.demo [--real|--cluster]`: see `make help`."""

from __future__ import annotations

import signal
import sys


def run() -> int:
    try:
        from tests.tools.demo.command import main  # takes a moment, in which Ctrl-C may come

        return main()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(run())
