"""The API server takes objects that no decoder of ours can follow: one of them is reported, and hides no other."""

from __future__ import annotations

import os

import pytest

from tests.beds.api import DAEMONSETS, Api
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import PROGRAM
from tests.beds.objects import daemonset
from tests.plugin.cluster.real_place import Place, place

pytestmark = pytest.mark.real

__all__ = ["place"]

LEVELS = 2_500


def deep(name: str) -> str:
    """JSON of a DaemonSet with a nest in its template; Python's own encoder cannot write it."""
    nest = '{"a":' * LEVELS + "{}" + "}" * LEVELS
    return (
        f'{{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{{"name":"{name}"}},'
        f'"spec":{{"selector":{{"matchLabels":{{"app":"{name}"}}}},'
        f'"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{"containers":[{{"name":"agent","image":"agent:v1"}}],"nest":{nest}}}}}}}}}'
    )


async def said(plane: ControlPlane, api: Api, *words: str) -> tuple[int, str, str]:
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}
    return await run_to_end((*PROGRAM, *words, "-n", api.namespace), environ)


async def test_it_is_left_out_of_lists_and_said_so(place: Place) -> None:
    plane, api = place.plane, place.api
    await api.create(DAEMONSETS, daemonset("other"))
    collection = f"/apis/apps.kruise.io/v1beta1/namespaces/{api.namespace}/daemonsets"
    made = await plane.run_kubectl("create", "--raw", collection, "-f", "-", stdin=deep("abyss"))
    assert made.returncode == 0, made.stderr
    for words in (("list",), ("status",), ("pause", "--all", "-y")):
        code, out, err = await said(plane, api, *words)
        assert (code, "other" in out) == (0, True), (words, out, err)
        assert "abyss nests too deeply to be read, and is left out" in err, (words, out, err)
    assert (await api.get(DAEMONSETS, "other"))["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True


async def test_asked_for_by_name_it_is_one_line(place: Place) -> None:
    plane, api = place.plane, place.api
    collection = f"/apis/apps.kruise.io/v1beta1/namespaces/{api.namespace}/daemonsets"
    made = await plane.run_kubectl("create", "--raw", collection, "-f", "-", stdin=deep("abyss"))
    assert made.returncode == 0, made.stderr
    for words in (("status", "abyss"), ("pause", "abyss")):
        code, out, err = await said(plane, api, *words)
        assert (code, out) == (1, ""), (words, out, err)
        assert err.startswith("error: "), (words, err)
        assert "abyss" in err, (words, err)
        assert "Traceback" not in err, (words, err)
