"""`python -m tests.tools.monitoring [PLACE]`: write PrometheusRule and dashboards, and print which were stale.

PLACE: where the runbooks are to be found; the alerts name it from then on.
"""

from __future__ import annotations

import sys

from tests.tools.monitoring.render import RULES, with_runbooks, write

if __name__ == "__main__":
    for place in sys.argv[1:]:
        RULES.write_text(with_runbooks(RULES.read_text(), place))
    print("".join(f"{path}\n" for path in write()), end="")
