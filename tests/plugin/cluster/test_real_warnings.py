"""What the real API server warns of at a write reaches stderr, once and in kubectl's words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, Api, Object, Resource
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import PROGRAM
from tests.beds.objects import demo

pytestmark = pytest.mark.real

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = Resource(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
BINDINGS = Resource(
    ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
WARNING = "Warning: Validation failed for ValidatingAdmissionPolicy 'frowns' with binding 'frowns': not on a Friday"


def policy(namespace: str) -> tuple[Object, Object]:
    """It warns of each write to a DaemonSet in the namespace."""
    rules = [
        {
            "apiGroups": ["apps.kruise.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["daemonsets"],
        }
    ]
    validations = [{"expression": "false", "message": "not on a Friday"}]
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    matches = {"resourceRules": rules, "namespaceSelector": here}
    return (
        {"metadata": {"name": "frowns"}, "spec": {"matchConstraints": matches, "validations": validations}},
        {"metadata": {"name": "frowns"}, "spec": {"policyName": "frowns", "validationActions": ["Warn"]}},
    )


async def stderr_of(*words: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    return err.decode().splitlines()


VERBS = {
    "a patch": ("pause", "agent"),
    "a dry run": ("set-partition", "agent", "1", "--dry-run=server"),
    "a dry run and a write": ("set-image", "agent", "*=example.com/agent:v9", "-y"),
    "a manifest": ("apply", "-f", "FILE", "-y"),
    "a new object": ("apply", "-f", "NEW", "-y"),
    "two objects": ("restart", "agent", "other", "-y"),
    "a quiet one": ("set-partition", "agent", "2", "-y", "-q"),
}


async def test_each_verb_tells_a_warning_of_the_server_once(
    plane: ControlPlane, real_api: Api, tmp_path: Path
) -> None:
    paths = {"FILE": tmp_path / "file.json", "NEW": tmp_path / "new.json"}
    await real_api.create(DAEMONSETS, demo("other"))
    paths["FILE"].write_text(json.dumps(demo("agent", "example.com/agent:v8")))
    paths["NEW"].write_text(json.dumps(demo("new")))
    flags = (f"--kubeconfig={plane.kubeconfig}", "-n", real_api.namespace)
    frowns = policy(real_api.namespace)
    await real_api.create(POLICIES, frowns[0])
    await real_api.create(BINDINGS, frowns[1])
    try:
        touch = ("annotate", "daemonsets.apps.kruise.io", "agent", "--overwrite", "--dry-run=server", "a=b")
        async with asyncio.timeout(60):
            while await stderr_of(str(plane.kubectl), *touch, *flags) != [WARNING]:  # it compiles its policies later
                await asyncio.sleep(0.2)
        for case, words in VERBS.items():
            typed = (str(paths.get(word, word)) for word in words)
            told = await stderr_of(*PROGRAM, *typed, *flags)
            assert [line for line in told if "Friday" in line] == [WARNING], case
    finally:
        await real_api.delete(BINDINGS, "frowns")
        await real_api.delete(POLICIES, "frowns")
