"""What a start does not do, because it would cost a third of it."""

from __future__ import annotations

import subprocess
import sys

START = """
import gc, sys
from controller.__main__ import main
sys.argv = ["kruise-ds-controller", "--kubeconfig=/nonexistent/config"]
try:
    main()
except SystemExit as end:
    assert end.code == 2, end.code
assert "controller.app" in sys.modules
assert "kubernetes_asyncio" not in sys.modules, "37 MiB before the first use"
assert not {"typer", "pydantic"} & {*sys.modules}, "12 MiB for the command line"
assert gc.isenabled()
watched, spared = len(gc.get_objects()), gc.get_freeze_count()
assert watched < spared, f"the garbage collector walks over {watched} objects, and not over {spared}"
"""


def test_no_import_is_in_vain_and_imports_are_exempt_from_collection() -> None:
    subprocess.run([sys.executable, "-c", START], check=True, timeout=60)


def test_failures_and_access_cost_no_network_library() -> None:
    script = "import sys, kubectl_plugin.errors, controller.kube.kubeconfig; assert 'aiohttp' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
