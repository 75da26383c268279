"""`python -m tests.tools.workflows`: are the workflows as GitHub and our own rules want them?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.control_plane.sources import Unavailable
from tests.tools.workflows.rules import ROOT, WORKFLOWS, broken_rules


def main(workflows: Sequence[Path] = WORKFLOWS, *, root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> int:
    """Return 0 when they are, else 1. Where actionlint cannot be had it says so, and fails under CI only."""
    broken = [f"{path.relative_to(root)}: {line}" for path in workflows for line in broken_rules(path.read_text())]
    print("".join(f"{line}\n" for line in broken), end="", file=sys.stderr)
    try:
        program = obtain_go_tool(Path(__file__).parent, "actionlint", environ=environ)
    except Unavailable as error:
        print(f"NOT CHECKED: .github/workflows, since {error}", file=sys.stderr)
        return int(bool(broken or environ.get("CI")))
    # Without shellcheck and pyflakes, which some machines have and others have not.
    done = subprocess.run([program, "-shellcheck=", "-pyflakes=", *workflows], cwd=root)
    return int(bool(broken or done.returncode))


if __name__ == "__main__":
    sys.exit(main())
