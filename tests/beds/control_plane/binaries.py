"""Where the control plane's binaries come from: three sources, in order, and one error that tells of all."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.beds.control_plane import golang
from tests.beds.control_plane.sources import (
    Progress,
    Source,
    SourceError,
    Unavailable,
    cache_home,
    filled_whole,
    first_of,
    locked,
    say,
)

MODULE = Path(__file__).parent
VERSIONS = MODULE / "versions"
OTHERS = tuple(sorted(path.parent.name for path in VERSIONS.glob("*/go.mod")))
"""What `$KUBERNETES_VERSION` may be, such as `1.30`: a Kubernetes beside the pinned one, with a go.mod of its own."""
NAMES = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
KUBERNETES = "k8s.io/kubernetes/cmd"
ETCD = "go.etcd.io/etcd/server/v3"


@dataclass(frozen=True, slots=True)
class Binaries:
    """One folder of executables of one version, such as `v1.36.3`."""

    version: str
    folder: Path
    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_controller_manager: Path
    kube_scheduler: Path


def pinned_version() -> str:
    """The Kubernetes version that go.mod names, such as `v1.36.3`: the one place to change it."""
    return wanted_version({})


def wanted_version(environ: Mapping[str, str]) -> str:
    """The pinned version, or the one that the go.mod of `$KUBERNETES_VERSION` names."""
    module = _module(environ)
    found = re.search(r"^(?:require)?\s*k8s\.io/kubernetes (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{module}/go.mod does not require k8s.io/kubernetes")
    return found[1]


def _module(environ: Mapping[str, str]) -> Path:
    """The folder of the go.mod that pins what is built."""
    minor = environ.get("KUBERNETES_VERSION", "")
    if minor and minor not in OTHERS:
        raise LookupError(f"KUBERNETES_VERSION={minor}: there are only {', '.join(OTHERS)}, each in {VERSIONS}")
    return VERSIONS / minor if minor else MODULE


def binaries_in(folder: Path, version: str) -> Binaries:
    """The binaries in `folder`; raises `SourceError` naming the missing ones."""
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder}")
    missing = [name for name in NAMES if not os.access(folder / name, os.X_OK)]
    if missing:
        raise SourceError(f"{folder} has no {', '.join(missing)}")
    return Binaries(version, folder, *(folder / name for name in NAMES))


def obtain(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Binaries:
    """Find or build the binaries; minutes where they must be built, and then says what it does.

    `$KUBERNETES_VERSION` chooses another Kubernetes than the pinned one; see `OTHERS`. Raises `Unavailable`.
    """
    search = _Search(wanted_version(environ), environ, progress)
    cache = Source("the cache", search.cached)
    found, failures = first_of([Source("$KUBEBUILDER_ASSETS", search.named_by_user), cache])
    if found:
        return found
    with locked(search.folder, progress):
        # the cache again: another run may have filled it while we waited
        found, more = first_of([cache, Source("the Go build", search.built)], progress)
    if found:
        return found
    raise Unavailable("the real control plane", failures + more[1:])


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for, with one method for each source, which gives it or raises `SourceError`."""

    version: str
    environ: Mapping[str, str]
    progress: Progress

    @property
    def folder(self) -> Path:
        """Where what we have built is kept."""
        return cache_home(self.environ) / "control-plane" / self.version

    def named_by_user(self) -> Binaries:
        named = self.environ.get("KUBEBUILDER_ASSETS", "")
        if not named:
            raise SourceError("not set")
        found = binaries_in(Path(named).expanduser(), "")
        version = _version_of(found.kube_apiserver)
        if self.environ.get("KUBERNETES_VERSION") and version != self.version:
            raise SourceError(f"{found.folder} holds {version}, not the {self.version} that is asked for")
        return replace(found, version=version)

    def cached(self) -> Binaries:
        return binaries_in(self.folder, self.version)

    def built(self) -> Binaries:
        self.progress(f"building Kubernetes {self.version} and etcd: once, about 8 minutes on two cores")
        commands = [f"{KUBERNETES}/{name}" for name in NAMES[1:]]
        with filled_whole(self.folder) as partial:
            build_kubernetes([ETCD, *commands], partial, environ=self.environ, progress=self.progress)
            (partial / "server").rename(partial / "etcd")  # Go names it after its folder
            binaries_in(partial, self.version)
        return binaries_in(self.folder, self.version)


def build_kubernetes(packages: Sequence[str], into: Path, *, environ: Mapping[str, str], progress: Progress) -> None:
    """Build commands of the Kubernetes that is asked for, which know their version; raises `SourceError`."""
    version = wanted_version(environ)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamp = "k8s.io/component-base/version.git"
    ldflags = f"-s -w -X {stamp}Version={version} -X {stamp}Major={major} -X {stamp}Minor={minor}"
    golang.build(_module(environ), into, packages=packages, ldflags=ldflags, environ=environ, progress=progress)


def _version_of(kube_apiserver: Path) -> str:
    """What the binary calls itself; `Kubernetes v1.36.3` gives `v1.36.3`."""
    try:
        said = subprocess.run([kube_apiserver, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceError(f"{kube_apiserver} does not run: {error}") from error
    return said.stdout.split()[-1]
