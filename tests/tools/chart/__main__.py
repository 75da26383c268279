"""`python -m tests.tools.chart`: write the chart's made files again, and print them."""

from __future__ import annotations

from tests.beds.control_plane import obtain
from tests.tools.chart.made import CHART, made, stale

if __name__ == "__main__":
    files = made(obtain().kubectl)
    for path in stale(files):
        path.unlink()
    for path, text in files.items():
        path.write_text(text)
    print(CHART)
