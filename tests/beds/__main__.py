"""`python -m tests.beds`: get the programs that tests run beside the control plane, and print where each is."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.beds import prometheus
from tests.beds.control_plane.sources import Unavailable
from tests.beds.gitops import obtain_gitops
from tests.beds.helm import obtain_helm
from tests.beds.kruise_rollouts import obtain_rollouts
from tests.beds.kube_state_metrics import obtain_kube_state_metrics

PROGRAMS: tuple[Callable[[], object], ...] = (
    lambda: prometheus.obtain().prometheus.parent,
    obtain_helm,
    lambda: obtain_rollouts().program,
    lambda: obtain_gitops().program,
    obtain_kube_state_metrics,
)


def main() -> int:
    """Return 0, or 1 with the reasons on stderr where one cannot be had."""
    missing = 0
    for obtain in PROGRAMS:
        try:
            print(obtain())
        except Unavailable as error:
            print(error, file=sys.stderr)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
