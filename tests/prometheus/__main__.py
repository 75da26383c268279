"""`python -m tests.prometheus fetch`: get prometheus and promtool, and print their folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.prometheus.binaries import PrometheusUnavailable, obtain


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.prometheus", description=__doc__)
    parser.add_argument("action", choices=["fetch"])
    parser.parse_args(arguments)
    try:
        print(obtain().prometheus.parent)
    except PrometheusUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
