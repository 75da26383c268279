"""The oldest Kubernetes is one number: for the doctor, in the documents, in the manifests and on the test beds."""

from __future__ import annotations

import re

from kubectl_plugin.report.installation.checkup import OLDEST_CLUSTER
from tests.beds.control_plane.binaries import OTHERS, pinned_version, wanted_version
from tests.beds.manifests import MANIFESTS
from tests.packaging.test_documents import ROOT

INSTALL = (ROOT / "docs" / "install.md").read_text()
OLDEST = ".".join(map(str, OLDEST_CLUSTER))


def test_the_oldest_that_the_doctor_accepts_is_the_oldest_that_is_tried() -> None:
    assert min(OTHERS, key=lambda minor: int(minor.split(".")[1])) == OLDEST


def test_the_table_of_versions_has_just_those_that_are_tried() -> None:
    rows = re.findall(r"^\| (1\.\d+\.\d+) \|", INSTALL, re.MULTILINE)
    assert [f"v{version}" for version in rows] == sorted(
        [pinned_version(), *(wanted_version({"KUBERNETES_VERSION": minor}) for minor in OTHERS)]
    )


def test_documents_and_manifests_say_the_same_number() -> None:
    for page in (INSTALL, (ROOT / "README.md").read_text()):
        assert re.findall(r"Kubernetes (1\.\d+) or newer", page) == [OLDEST]
    chart = (MANIFESTS / "chart" / "Chart.yaml").read_text()
    assert re.findall(r'^kubeVersion: ">=(1\.\d+)\.0-0"', chart, re.MULTILINE) == [OLDEST]
    said = {
        path.relative_to(ROOT).as_posix(): re.findall(r"Needs Kubernetes (1\.\d+)", path.read_text())
        for path in MANIFESTS.rglob("*.yaml")
    }
    assert {path: found for path, found in said.items() if found and found != [OLDEST]} == {}
    assert any(said.values()), "the comments are worded as this test looks for them"
