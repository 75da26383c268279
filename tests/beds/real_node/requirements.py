"""Whether this machine can have real nodes; made out before anything is built.

One that cannot is no fault of a run: its tests are skipped under `CI=true` too.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from tests.beds.real_node.cgroups import FREEZER

PROGRAMS = ("unshare", "nsenter", "mount", "ip", "sleep")


def missing() -> list[str]:
    """Why it cannot; empty when it can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return [f"it needs Linux on x86_64, not {sys.platform} on {platform.machine()}"]
    if os.geteuid() != 0:
        return ["it needs root"]
    found = [f"no program {name}" for name in PROGRAMS if shutil.which(name) is None]
    if not FREEZER.is_dir():
        found.append(f"no cgroups of version 1: there is no {FREEZER}")
    if "overlay" not in Path("/proc/filesystems").read_text():
        found.append("no overlay file system")
    return found or _refused()


def _refused() -> list[str]:
    """Rights that root may lack are seen by trying: a network with a card, and a mount."""
    attempt = "ip link add eth0 type veth peer name wire0 && mount -t tmpfs tmpfs /tmp"
    command = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "sh", "-ec", attempt]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return [] if done.returncode == 0 else [f"root may not do enough: {done.stderr.strip()}"]
