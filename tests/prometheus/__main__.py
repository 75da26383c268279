"""`python -m tests.prometheus fetch|render`: get prometheus and promtool, or write what is made from other files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.prometheus.binaries import PrometheusUnavailable, obtain
from tests.prometheus.render import write


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.prometheus", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("fetch", help="obtain prometheus and promtool and print their folder")
    actions.add_parser("render", help="write the PrometheusRule and the dashboards, and print which were stale")
    options = parser.parse_args(arguments)
    if options.action == "render":
        print("".join(f"{path}\n" for path in write()), end="")
        return 0
    try:
        print(obtain().prometheus.parent)
    except PrometheusUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
