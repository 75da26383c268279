"""`python -m tests.tools.monitoring`: write the PrometheusRule and the dashboards, and print which were stale."""

from __future__ import annotations

from tests.tools.monitoring.render import write

if __name__ == "__main__":
    print("".join(f"{path}\n" for path in write()), end="")
