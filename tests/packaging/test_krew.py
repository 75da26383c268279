"""The krew manifest keeps krew's rules, and the archive that it points at is one that krew can install.

The rules are those of krew's own validation (structure, selectors, no overlap, line lengths) and of its naming guide.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.control_plane import ControlPlane
from tests.beds.fixtures import not_to_be_had
from tests.tools.krew.__main__ import PROGRAM, Files, archive, files, released
from tests.tools.krew.natives import MINORS, NATIVE, NoWheelError, natives

ROOT = Path(__file__).parents[2]
MANIFEST: dict[str, Any] = yaml.safe_load((ROOT / ".krew.yaml").read_text())
SPEC: dict[str, Any] = MANIFEST["spec"]
PLATFORMS: list[dict[str, Any]] = SPEC["platforms"]
RANGE = f"3.{MINORS[0]} to 3.{MINORS[-1]}"
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def label(platform: dict[str, Any]) -> str:
    labels = platform["selector"]["matchLabels"]
    return f"{labels['os']}_{labels['arch']}"


def test_the_manifest_is_what_krew_reads() -> None:
    assert MANIFEST["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert MANIFEST["kind"] == "Plugin"
    assert set(MANIFEST) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(SPEC) == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert f"kubectl-{MANIFEST['metadata']['name'].replace('-', '_')}" == PROGRAM
    assert SPEC["version"] == f"v{VERSION}"
    assert re.fullmatch(r"https://\S+", SPEC["homepage"])


def test_its_texts_fit_and_say_what_krew_does_not_bring() -> None:
    short = SPEC["shortDescription"]
    assert 0 < len(short) <= 50
    assert not re.search(r"kubectl|plugin|krew|kubernetes|[\r\n]|\.$", short, re.IGNORECASE), (
        "as krew's naming guide says"
    )
    for field in ("description", "caveats"):
        assert SPEC[field].strip()
        assert [line for line in SPEC[field].split("\n") if len(line) > 80 and " " in line.strip()] == [], field
    assert f"Python {RANGE}" in SPEC["caveats"]
    assert "kubectl kruise-ds completion install" in SPEC["caveats"]
    for page in ("docs/plugin.md", "docs/design/commands.md"):
        assert RANGE in (ROOT / page).read_text(), page


def test_it_has_an_archive_of_this_version_for_each_platform() -> None:
    assert sorted(map(label, PLATFORMS)) == ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"]
    for platform in PLATFORMS:
        name = label(platform)
        assert set(platform) == {"selector", "uri", "sha256", "bin", "files"}, name
        assert set(platform["selector"]) == {"matchLabels"}, name
        assert set(platform["selector"]["matchLabels"]) == {"os", "arch"}, name
        assert platform["uri"].startswith("https://"), name
        assert platform["uri"].endswith(f"/{SPEC['version']}/{PROGRAM}_{SPEC['version']}_{name}.tar.gz"), name
        assert isinstance(platform["sha256"], str), f"{name}: digits alone would be read as a number"
        assert re.fullmatch(r"[a-f0-9]{64}", platform["sha256"]), name
        assert platform["bin"] == PROGRAM, name
        assert platform["files"], name
        assert all(set(one) == {"from", "to"} and one["from"] and one["to"] for one in platform["files"]), name


@pytest.fixture(scope="module")
def compiled() -> Files:
    try:
        return natives()
    except NoWheelError as error:
        not_to_be_had(error)


@pytest.fixture(scope="module")
def content(compiled: Files) -> Files:
    return files(VERSION, compiled)


@pytest.fixture(scope="module")
def packed(content: Files) -> bytes:
    return archive(content)


@pytest.fixture(scope="module")
def installed(packed: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As krew leaves it: unpacked into a folder of the version, with a relative link to it elsewhere."""
    root = tmp_path_factory.mktemp("krew")
    store = root / "store" / "kruise-ds" / f"v{VERSION}"
    store.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(store, filter="data")
    link = root / "bin" / PROGRAM
    link.parent.mkdir()
    link.symlink_to(Path("..", "store", "kruise-ds", f"v{VERSION}", PROGRAM))
    return link


OWN = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
"""The one that runs the tests."""
ANOTHER = "import runpy, sys; sys.version_info = {}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"


def run(program: Path, *words: str, python: Path = OWN, **env: str) -> subprocess.CompletedProcess[str]:
    """With `python` as `python3`, without the packages of this environment."""
    folder = program.parent / f"with-{python.name}"
    on_path(folder, "python3", f'exec {python} -I "$@"')
    return run_on(folder, program, *words, **env)


def run_on(folder: Path, program: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    whole = {"PATH": f"{folder}{os.pathsep}{program.parent}", "HOME": "/nonexistent", **env}
    return subprocess.run([program, *words], env=whole, capture_output=True, text=True, timeout=60)


def on_path(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def pythons() -> dict[int, Path]:
    """Those of this machine that the archive is for, by minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders = [*map(Path, os.get_exec_path()), *pyenv.glob("3.*/bin")]
    found = ((minor, folder / f"python3.{minor}") for minor in MINORS for folder in folders)
    return {minor: path for minor, path in found if path.exists() and is_python(path, minor)}


def is_python(path: Path, minor: int) -> bool:
    """Not one of the scripts that only know where others are."""
    ask = "import sys; print(sys.version_info[1])"
    return subprocess.run([path, "-Ic", ask], capture_output=True, text=True).stdout == f"{minor}\n"


def test_the_same_environment_gives_the_same_bytes(content: Files, compiled: Files) -> None:
    """Of some files, because packing all takes seconds."""
    assert files(VERSION, compiled) == content
    some = list(content.items())[::20]
    first = archive(dict(some))
    assert hashlib.sha256(archive(dict(some[::-1]))).hexdigest() == hashlib.sha256(first).hexdigest()
    assert first[4:8] == bytes(4), "the time in gzip's header"


def test_nothing_in_it_leaves_its_folder(packed: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = tar.getmembers()
    assert [one.name for one in members if one.name.startswith("/") or ".." in Path(one.name).parts] == []
    assert [one.name for one in members if not one.isfile()] == []
    assert [one.name for one in members if one.mode & 0o111] == [PROGRAM]


@pytest.mark.real
def test_it_asks_a_server_with_every_python_here(installed: Path, control_plane: ControlPlane) -> None:
    """Whichever of them has made it."""
    here = pythons()
    if len(here) < 2:
        not_to_be_had(LookupError(f"no other Python than 3.{sys.version_info.minor} from 3.{MINORS[0]} on"))
    for python in here.values():
        done = run(installed, "version", "-o", "json", python=python, KUBECONFIG=str(control_plane.kubeconfig))
        assert (done.returncode, done.stderr) == (0, ""), python
        assert json.loads(done.stdout)["server"].startswith("v1."), python


def test_it_holds_the_extensions_of_every_python(content: Files) -> None:
    found = sorted(name for name in content if name.endswith(".so"))
    assert len(found) == len(NATIVE) * len(MINORS)
    for minor in MINORS:
        assert len([name for name in found if f"cpython-3{minor}-" in name]) == len(NATIVE), found


@pytest.mark.parametrize("version", [(3, 9, 1), (3, MINORS[-1] + 1, 0)], ids=["too old", "too new"])
def test_a_python_that_it_is_not_for_looks_for_another(
    installed: Path, tmp_path: Path, version: tuple[int, int, int]
) -> None:
    """And passes over a script that would know where one is, if there were one."""
    on_path(tmp_path, "python3", f"exec {OWN} -Ic '{ANOTHER.format(version)}' \"$@\"")
    on_path(tmp_path, f"python3.{MINORS[-1]}", "echo not installed >&2; exit 127")
    done = run_on(tmp_path, installed, "version", "--client")
    assert (done.returncode, done.stdout) == (1, "")
    present = ".".join(map(str, version[:2]))
    assert done.stderr == f"error: kubectl kruise-ds needs Python {RANGE} on the PATH; python3 is {present}\n"
    on_path(tmp_path, OWN.name, f'exec {OWN} -I "$@"')
    done = run_on(tmp_path, installed, "version", "--client")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Client:      {VERSION}\n", "")


def test_it_reads_a_kubeconfig_without_the_models_that_are_left_out(installed: Path, tmp_path: Path) -> None:
    config = {
        "current-context": "sample",
        "contexts": [{"name": "sample", "context": {"cluster": "sample", "user": "sample"}}],
        "clusters": [{"name": "sample", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "sample", "user": {"token": "x"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    done = run(installed, "version", KUBECONFIG=str(path))
    assert done.returncode == 1
    assert done.stderr.startswith('error: cannot reach http://127.0.0.1:1 (context "sample"): ')


def test_completion_is_installed_beside_krews_link(installed: Path) -> None:
    done = run(installed, "completion", "install")
    assert (done.returncode, done.stderr) == (0, "")
    second = installed.with_name("kubectl_complete-kruise_ds")
    offered = run(second, "stat").stdout.splitlines()
    assert offered == ["status\tWhere the rollout is, why it waits, what to do", ":4"]


def test_a_release_has_the_checksums_of_the_archives_that_were_made(tmp_path: Path, packed: bytes) -> None:
    name = f"{PROGRAM}_v{VERSION}_linux_arm64.tar.gz"
    (tmp_path / name).write_bytes(packed)
    spec = released(MANIFEST, tmp_path, "https://example.com/there/", "https://example.com/home")["spec"]
    (one,) = spec["platforms"]
    assert spec["homepage"] == "https://example.com/home"
    assert label(one) == "linux_arm64"
    assert one["sha256"] == hashlib.sha256(packed).hexdigest()
    assert one["uri"] == f"https://example.com/there/{name}"
