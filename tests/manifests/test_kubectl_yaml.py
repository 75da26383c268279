"""`-o yaml` and `-f`: the plugin and the real kubectl mean the same by every text, in quotes or not."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from controller.api.objects import JSON, JSONObject
from kubectl_plugin.cluster.manifests import manifests_in
from kubectl_plugin.flags import Output
from kubectl_plugin.terminal import as_text
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.manifests.conftest import Kubectl, Store
from tests.manifests.objects import daemonset
from tests.manifests.server import MERGE_PATCH, Server, daemonsets

pytestmark = pytest.mark.real

PLAIN = re.findall(
    r"\S+",
    """
y Y yes n N no on Off oFF True nO null Null ~ = << 1 -1 +1 1.0 .5 5. 1e3 1E3 1e+3 1.e-7 12e45 1e400 0o17 0O17 0o8 017
08 0123456 089 0x1F 0X1f -0x1F 0b11 -0B1 1_000 1__0 0_8 _1 1_e3 ._5 .5_0 22:30 12:30:45 -1:30 2026-01-31 10017 00 -007
2026-01-31T00:00:00Z 99999999999999999999 -9223372036854775809 18446744073709551615 a:b a#b http://h:1/x?y=1&z v1.2.3
1.2.3 0x 0x_ +_ 0_ e5 .e3 5e 1_0.5 1.5_0e3 deadbe0 1e10 12e45 -.5 +.5 -0 0.1 100000000000000000000000.5 é /x
""",
)
"""Words that may stand without quotes."""
HOSTILE = (
    *PLAIN,
    *("--", "---", "...", "..", *"-.?:!&*>|%@`,[]{}#"),
    *("", " ", "  x", "x ", "\t", "a\tb", "a\nb", "a\n\n", "\n", " \n", "\r", "a\r\nb", "key: value", "a #b", "- a"),
    *("? b", "{a: 1}", "[1]", "&a b", "*a", "!!int 1", "!x", "%YAML", "'", '"', "''", '"y"', "\\", "\\n", "größer"),
    *("日本", *"\U0001f600\x00\x07\x7f\x85\xa0\u2028\u2029\ufeff\u202e", "\x1b[31m"),
    *("x" * 300, "a " * 120, "#!/bin/sh\nset -e\n  echo 'x'\n", "  leading\nlines"),
    *("trailing  \nspace", "tab\t\nend"),
    *("\n\nfirst", "a\n \nb", ".inf", "-.Inf", ".nan"),
)


def random_texts(count: int) -> list[str]:
    chance = random.Random(7)
    letters = "0123456789abefonyxEINTY_+-.:#'\"~ \n\\{}[],&*!|>%@`?=<\t"
    return ["".join(chance.choices(letters, k=chance.randint(1, 9))) for _ in range(count)]


async def as_kubectl_reads(plane: ControlPlane, path: Path) -> Any:
    """The spec, as the real kubectl takes it. No server is asked."""
    words = ("patch", "--local", "--type=merge", "-p", "{}", "-o", "json", "-f", str(path))
    code, out, err = await run_to_end((str(plane.kubectl), *words), {"HOME": str(path.parent)})
    assert code == 0, err
    return json.loads(out, parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits))["spec"]


@pytest.mark.parametrize("only_ascii", [False, True])
async def test_what_we_print_kubectl_reads_as_it_was(
    control_plane: ControlPlane, tmp_path: Path, only_ascii: bool
) -> None:
    texts = [*HOSTILE, *random_texts(3000)]
    keys: JSONObject = {text: index for index, text in enumerate(dict.fromkeys(texts)) if len(text) < 100}
    others: list[JSON] = [0, -1, 2**53, 0.5, 1e-7, 1e21, True, False, None]
    meant: JSONObject = {"texts": [*texts], "keys": keys, "others": others}
    document: JSONObject = {"apiVersion": "demo/v1", "kind": "Demo", "metadata": {"name": "demo"}, "spec": meant}
    path = tmp_path / "demo.yaml"
    path.write_text(as_text(document, Output.YAML, only_ascii=only_ascii), encoding="utf-8")
    read = await as_kubectl_reads(control_plane, path)
    assert [pair for pair in zip(texts, read["texts"], strict=True) if pair[0] != pair[1]] == []
    assert read == meant


async def test_a_word_without_quotes_means_the_same_to_us_as_to_kubectl(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    head = "apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: demo}\nspec:\n  words:\n"
    text = head + "".join(f"  - {word}\n" for word in (*PLAIN, ""))
    path = tmp_path / "demo.yaml"
    path.write_text(text, encoding="utf-8")
    theirs = (await as_kubectl_reads(control_plane, path))["words"]
    ((found,), _) = manifests_in(text, "demo.yaml")
    spec: Any = found.document["spec"]
    read = zip((*PLAIN, ""), spec["words"], theirs, strict=True)
    assert [one for one in read if isinstance(one[1], bool) is not isinstance(one[2], bool) or one[1] != one[2]] == []


def cells(table: str) -> tuple[list[str], list[str]]:
    """Header and first row of a table whose columns are two or more spaces apart."""
    header, row = (
        [cell.strip() for cell in line.strip().replace("   ", "\t").split("\t") if cell.strip()]
        for line in table.splitlines()[:2]
    )
    return header, row


def test_columns_are_native_and_wide_ones_tell_the_rollout(server: Server, store: Store, kubectl: Kubectl) -> None:
    store(daemonset())
    header, row = cells(kubectl("get", "ads", "agent"))
    columns = ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "PHASE", "NODE SELECTOR", "AGE"]
    assert header == columns
    assert row[:6] == ["agent", "0", "0", "0", "0", "0"], "zeros, no blanks, before the first status"
    status: JSON = {
        "status": {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
            "updateRevision": "6b4f9d7c8",
            "rollout": {"phase": "Progressing", "target": 4, "done": 1},
            "columns": {
                "nodeSelector": "<none>",
                "containers": "agent,relay",
                "images": "agent:1,relay:2",
                "selector": "app=agent",
                "step": "2/3",
            },
        }
    }
    server.ask("PATCH", f"{daemonsets()}/agent/status", status, MERGE_PATCH).accepted()
    _, row = cells(kubectl("get", "ads", "agent"))
    assert row[:8] == ["agent", "5", "4", "3", "2", "1", "Progressing", "<none>"]
    header, row = cells(kubectl("get", "ads", "agent", "-o", "wide"))
    assert header[9:] == ["TARGET", "DONE", "STEP", "PARTITION", "REVISION", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[9:] == ["4", "1", "2/3", "0", "6b4f9d7c8", "agent,relay", "agent:1,relay:2", "app=agent"]
    for partition in (2, "40%"):
        spec: JSON = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}
        server.ask("PATCH", f"{daemonsets()}/agent", spec, MERGE_PATCH).accepted()
        _, row = cells(kubectl("get", "ads", "agent", "-o", "wide"))
        assert row[12] == str(partition)


@pytest.mark.parametrize("name", ["ads", "daemon", "daemonsets.apps.kruise.io", "daemonsets.v1alpha1.apps.kruise.io"])
def test_kubectl_finds_it_by(store: Store, kubectl: Kubectl, name: str) -> None:
    store(daemonset())
    assert kubectl("get", f"{name}/agent", "-o", "name") == "daemonset.apps.kruise.io/agent\n"


@pytest.mark.parametrize("category", ["all", "kruise"])
def test_it_is_among(store: Store, kubectl: Kubectl, category: str) -> None:
    store(daemonset())
    assert "daemonset.apps.kruise.io/agent" in kubectl("get", category, "-o", "name")


def test_ds_stays_with_the_native_kind(store: Store, kubectl: Kubectl) -> None:
    store(daemonset())
    assert kubectl("get", "ds", "-o", "name") == ""


def test_explain_tells_units_defaults_and_traps(server: Server, kubectl: Kubectl) -> None:
    text = kubectl("explain", "ads.spec.updateStrategy.rollingUpdate.partition")
    for word in ("OLD revision", "rounded", "Default 0", "Examples", "Traps"):
        assert word in text
    assert "VERSION:    v1alpha1" in kubectl("explain", "ads.spec", "--api-version=apps.kruise.io/v1alpha1")
