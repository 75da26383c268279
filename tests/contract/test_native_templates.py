"""What an API server makes of the template of a native DaemonSet means the same as what was written.

Otherwise pods would restart when a DaemonSet is taken over from the native controller, or handed back.
"""

from __future__ import annotations

import os
import re

import pytest

from controller.api.template_identity import canonical
from tests.beds import templates
from tests.beds.api import Object, Refusal
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.binaries import pinned_version
from tests.beds.native import NATIVE
from tests.contract.bed import ApiServer
from tests.tools.openapi import published

pytestmark = [
    pytest.mark.real,
    pytest.mark.parametrize("real_plane", ["control-plane"], indirect=True),
]

YOUNG = {"FILE", "image", "image-latest"}
"""Variables and volumes of kinds that an older server does not have, or has switched off."""
KINDS = ("Volume", "VolumeProjection", "LifecycleHandler", "EnvVarSource", "Probe")
"""Objects with one field for each kind of thing."""
NUMBERS = {
    "failureThreshold",
    "periodSeconds",
    "successThreshold",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
}
"""Those of a probe."""


async def stored(bed: ApiServer, template: Object) -> tuple[Object, Object]:
    """`template`, without kinds that this server does not have, and what it makes of it."""
    while True:
        spec = {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
        try:
            made = await bed.api.create(NATIVE, {"metadata": {"name": "agent"}, "spec": spec}, dryRun="All")
        except Refusal as refusal:
            if not any(_left_out(template, cause["field"]) for cause in refusal.causes):
                raise
        else:
            found: Object = made["spec"]["template"]
            return template, found


def _left_out(template: Object, field: str) -> bool:
    """Whether the variable or volume at `field` is young, and is now left out."""
    for items, inside in (
        (template["spec"]["volumes"], r"spec\.volumes\[(\d+)\]"),
        (template["spec"]["containers"][0]["env"], r"containers\[0\]\.env\[(\d+)\]"),
    ):
        at = re.search(inside, field)
        if at is not None and int(at[1]) < len(items) and items[int(at[1])]["name"] in YOUNG:
            del items[int(at[1])]
            return True
    return False


async def test_every_kind_of_thing_means_the_same_when_it_is_stored(bed: ApiServer) -> None:
    sent, answer = await stored(bed, templates.given("written"))
    assert canonical(answer) == canonical(templates.known_part(sent, answer))


async def test_nothing_said_in_many_words_means_the_same_when_it_is_stored(bed: ApiServer) -> None:
    sent, answer = await stored(bed, templates.given("zeros"))
    assert canonical(answer) == canonical(sent)


@pytest.mark.parametrize("name", templates.NAMES)
async def test_the_record_of_what_is_stored_is_true(bed: ApiServer, real_plane: ControlPlane, name: str) -> None:
    """`KRUISE_DS_GOLDEN=write` in the environment records it anew."""
    if real_plane.binaries.version != pinned_version():
        pytest.skip("the record is of the pinned Kubernetes")
    _, answer = await stored(bed, templates.given(name))
    if os.environ.get("KRUISE_DS_GOLDEN") == "write":
        templates.record(name, answer)
    assert answer == templates.stored(name)


async def test_no_kind_of_thing_is_left_out(bed: ApiServer, real_plane: ControlPlane) -> None:
    """Of those that this API server publishes."""
    definitions = await published(real_plane)
    written = {*_keys(templates.given("written")["spec"])}
    for kind in KINDS:
        fields = {*definitions[f"io.k8s.api.core.v1.{kind}"]["properties"]}
        assert fields - NUMBERS <= written, f"{kind}: add these to written.yaml"


def _keys(found: object) -> list[str]:
    if isinstance(found, dict):
        return [*found, *(key for value in found.values() for key in _keys(value))]
    return [key for value in found for key in _keys(value)] if isinstance(found, list) else []
