"""`python -m tests.beds.prometheus`: get prometheus and promtool, and print their folder."""

from __future__ import annotations

import sys

from tests.beds.prometheus.binaries import PrometheusUnavailable, obtain


def main() -> int:
    """Return 0, or 1 with the reason on stderr."""
    try:
        print(obtain().prometheus.parent)
    except PrometheusUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
