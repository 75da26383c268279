"""Whether this machine can have real nodes, made out before anything is built; and where a node's programs come from:
the cache, else the Go build and Debian's packages.

A machine that cannot is no fault of a run: its tests are skipped under `CI=true` too.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.beds.control_plane import golang
from tests.beds.control_plane.binaries import KUBERNETES, build_kubernetes, wanted_version
from tests.beds.control_plane.sources import (
    Progress,
    SourceError,
    Unavailable,
    cache_home,
    filled_whole,
    locked,
    say,
    unpack,
)
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


CONTAINERD = Path(__file__).parent / "containerd"
AGENT = Path(__file__).parent / "agent"
PACKED = {"runc": ("usr/sbin/runc",), "containernetworking-plugins": ("usr/lib/cni/bridge", "usr/lib/cni/host-local")}
"""Debian's packages, and what we want of each. Its containerd is too old for the kubelet."""


@dataclass(frozen=True, slots=True)
class NodeBinaries:
    """The folder with all that runs on a node, and the program that is in the tests' images."""

    folder: Path
    agent: Path


def containerd_version() -> str:
    """The version that containerd/go.mod names."""
    required = re.search(r"/containerd/v2 (v\S+)", (CONTAINERD / "go.mod").read_text())
    if required is None:
        raise LookupError("tests/beds/real_node/containerd/go.mod does not require containerd")
    return required[1]


def obtain_node(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> NodeBinaries:
    """Find or build what a node runs; minutes where it must be built. Raises `Unavailable` with the reasons."""
    folder = _home(environ) / f"kubelet-{wanted_version(environ)}-containerd-{containerd_version()}"
    try:
        with _missing(folder, progress) as into:
            if into:
                _fill(into, environ, progress)
    except SourceError as error:
        raise Unavailable(f"the programs of a node cannot be had: {error}") from error
    return NodeBinaries(folder, obtain_agent(environ=environ, progress=progress))


def obtain_agent(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Path:
    """The program that is in the tests' images, built where need be: seconds. Raises `Unavailable`."""
    return golang.obtain_go_tool(AGENT, "agent", environ=environ, progress=progress)


def _home(environ: Mapping[str, str]) -> Path:
    return cache_home(environ) / "real-node"


@contextmanager
def _missing(folder: Path, progress: Progress) -> Iterator[Path | None]:
    """None where `folder` is there, else an empty one that becomes `folder`; one run at a time."""
    if folder.is_dir():
        yield None
        return
    with locked(folder, progress):
        if folder.is_dir():  # another run has filled it while we waited
            yield None
            return
        with filled_whole(folder) as partial:
            yield partial


def _fill(into: Path, environ: Mapping[str, str], progress: Progress) -> None:
    progress(f"building kubelet and containerd {containerd_version()}: once, about 6 minutes on two cores")
    build_kubernetes([f"{KUBERNETES}/kubelet"], into, environ=environ, progress=progress)
    golang.build(CONTAINERD, into, ldflags="-s -w", environ=environ, progress=progress)
    with tempfile.TemporaryDirectory(prefix="kruise-ds-node-") as unpacked:
        unpack(list(PACKED), Path(unpacked), progress)
        for paths in PACKED.values():
            for path in paths:
                shutil.copy2(Path(unpacked, path), into)
