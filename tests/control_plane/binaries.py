"""Where the control plane's binaries come from: four sources, in order, and one error that tells of all."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane import envtest, gobuild
from tests.control_plane.cache import Progress, cache_home, filled_whole, locked, say
from tests.control_plane.sources import Source, SourceError, first_of

MODULE = Path(__file__).parent
REQUIRED = ("etcd", "kube-apiserver", "kubectl")
CONTROLLERS = ("kube-controller-manager", "kube-scheduler")


class ControlPlaneUnavailable(Exception):  # noqa: N818 - it is a finding, reported as such
    """No source gave the binaries; the message has one line per source with the reason."""

    def __init__(self, failures: Sequence[str]) -> None:
        lines = "".join(f"\n  - {failure}" for failure in failures)
        super().__init__(f"the real control plane cannot be had; tried in this order:{lines}")
        self.failures = tuple(failures)


@dataclass(frozen=True, slots=True)
class Binaries:
    """One folder of executables of one version, such as `v1.36.3`; the published archives lack the last two."""

    version: str
    folder: Path
    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_controller_manager: Path | None
    kube_scheduler: Path | None


def pinned_version() -> str:
    """The Kubernetes version that go.mod names, such as `v1.36.3`: the one place to change it."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError("tests/control_plane/go.mod does not require k8s.io/kubernetes")
    return found[1]


def binaries_in(folder: Path, version: str, *, complete: bool) -> Binaries:
    """The binaries in `folder`; raises `SourceError` naming the missing ones.

    `complete` asks for kube-controller-manager and kube-scheduler as well.
    """
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder}")
    wanted = REQUIRED + CONTROLLERS if complete else REQUIRED
    missing = [name for name in wanted if not os.access(folder / name, os.X_OK)]
    if missing:
        raise SourceError(f"{folder} has no {', '.join(missing)}")
    manager, scheduler = (folder / name if (folder / name).exists() else None for name in CONTROLLERS)
    return Binaries(
        version, folder, folder / "etcd", folder / "kube-apiserver", folder / "kubectl", manager, scheduler
    )


def obtain(*, complete: bool = False, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Binaries:
    """Find, download or build the binaries; minutes where they must be built, and then says what it does.

    With `complete`, only a source that has kube-controller-manager and kube-scheduler too will do.
    Raises `ControlPlaneUnavailable`.
    """
    version = pinned_version()
    at_hand = [
        Source("$KUBEBUILDER_ASSETS", lambda: _named_by_user(environ, complete)),
        Source("the cache", lambda: _cached(_folder(environ, version), version, complete)),
    ]
    found, failures = first_of(at_hand)
    if found:
        return found
    with locked(_folder(environ, version), progress):
        to_be_made = [
            Source("the cache", lambda: _cached(_folder(environ, version), version, complete)),
            Source("the published archive", lambda: _downloaded(environ, version, complete, progress)),
            Source("the Go build", lambda: _built(environ, version, progress)),
        ]
        found, more = first_of(to_be_made, progress)
    if found:
        return found
    raise ControlPlaneUnavailable(failures + more[1:])  # the second look at the cache told nothing new


def _folder(environ: Mapping[str, str], version: str) -> Path:
    return cache_home(environ) / "control-plane" / version


def _archive_folder(environ: Mapping[str, str], version: str) -> Path:
    return _folder(environ, f"{version}-envtest")


def _named_by_user(environ: Mapping[str, str], complete: bool) -> Binaries:
    named = environ.get("KUBEBUILDER_ASSETS", "")
    if not named:
        raise SourceError("not set")
    found = binaries_in(Path(named).expanduser(), "", complete=complete)
    return binaries_in(found.folder, _version_of(found.kube_apiserver), complete=complete)


def _version_of(kube_apiserver: Path) -> str:
    """What the binary calls itself; `Kubernetes v1.36.3` gives `v1.36.3`."""
    try:
        said = subprocess.run([kube_apiserver, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceError(f"{kube_apiserver} does not run: {error}") from error
    return said.stdout.split()[-1]


def _cached(folder: Path, version: str, complete: bool) -> Binaries:
    try:
        return binaries_in(folder, version, complete=complete)
    except SourceError:
        if complete:
            raise
        try:
            return binaries_in(folder.with_name(f"{version}-envtest"), version, complete=False)
        except SourceError:
            pass
        raise


def _downloaded(environ: Mapping[str, str], version: str, complete: bool, progress: Progress) -> Binaries:
    if complete:
        raise SourceError(f"it holds no {' and no '.join(CONTROLLERS)}, which are wanted here")
    folder = _archive_folder(environ, version)
    with filled_whole(folder) as partial:
        envtest.download(version, partial, progress)
        binaries_in(partial, version, complete=False)
    return binaries_in(folder, version, complete=False)


def _built(environ: Mapping[str, str], version: str, progress: Progress) -> Binaries:
    folder = _folder(environ, version)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamp = "k8s.io/component-base/version.git"
    ldflags = f"-s -w -X {stamp}Version={version} -X {stamp}Major={major} -X {stamp}Minor={minor}"
    progress(f"building Kubernetes {version} and etcd from source: once, about 8 minutes on two cores")
    with filled_whole(folder) as partial:
        gobuild.build(MODULE, partial, ldflags=ldflags, environ=environ, progress=progress)
        (partial / "server").rename(partial / "etcd")  # Go names it after its folder
        binaries_in(partial, version, complete=True)
    return binaries_in(folder, version, complete=True)
