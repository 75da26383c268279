"""What the documents tell people to delete does not take the CRD along, and with it every DaemonSet and its pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries
from tests.beds.manifests import MANIFESTS, documents
from tests.tools.install_yaml import kustomized

pytestmark = pytest.mark.real

ROOT = MANIFESTS.parent
DELETION = re.compile(r"kubectl\b[^`\n]*? delete [^`\n]*?(?:-k|-f|--kustomize|--filename)[ =]([^\s`]+)")
ON_PURPOSE = "## Remove everything"


def told(text: str) -> list[str]:
    """The folders and files of all `kubectl delete -k` and `-f` in it, but for those of the section that means it."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [path for one in sections if not one.startswith(ON_PURPOSE) for path in DELETION.findall(one)]


def texts() -> Iterator[tuple[str, str]]:
    """Each document by its path, and each of our manifests that has such a command in a comment."""
    for pattern in ("*.md", "docs/**/*.md", "manifests/**/*.yaml"):
        for path in ROOT.glob(pattern):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def holds_a_crd(kubectl: Path, path: Path) -> bool:
    built = kustomized(kubectl, path) if path.is_dir() else path.read_text()
    return any(one["kind"] == "CustomResourceDefinition" for one in documents(built))


def test_no_deletion_that_is_told_takes_the_crd_along(control_plane_binaries: Binaries) -> None:
    commands = [(name, path) for name, text in texts() for path in told(text)]
    assert ("docs/upgrade.md", "manifests/overlays/default-without-crds") in commands
    for name, path in commands:
        assert not holds_a_crd(control_plane_binaries.kubectl, ROOT / path), f"{name}: kubectl delete … {path}"


def test_such_a_deletion_is_found_wherever_it_stands() -> None:
    text = "# A\nas in (`kubectl delete -k a/b`).\n```\nkubectl -n x delete --wait=false -f c.yaml\n```\n"
    assert told(f"{text}{ON_PURPOSE}: this\nkubectl delete -k crds\n## After\nkubectl delete --kustomize=d\n") == [
        "a/b",
        "c.yaml",
        "d",
    ]
