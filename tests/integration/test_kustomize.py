"""Kustomizations, which kubectl builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_plugin.cluster.manifests import read_manifests
from kubectl_plugin.errors import CommandError
from kubectl_plugin.flags import ManifestOptions
from kubectl_plugin.host import Host
from tests.unit.kubectl_plugin.cluster.manifests import at


async def test_a_kustomization_is_built(tmp_path: Path) -> None:
    (tmp_path / "ds.yaml").write_text("apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: a}\n")
    (tmp_path / "kustomization.yaml").write_text("namespace: obs\nnamePrefix: edge-\nresources: [ds.yaml]\n")
    assert await at(kustomize=tmp_path) == ["obs/edge-a"]


async def test_a_broken_kustomization_is_reported_in_kubectls_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"kubectl kustomize .*: .*kustomization"):
        await at(kustomize=tmp_path)


async def test_without_kubectl_there_is_no_kustomize(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="-k needs"):
        await read_manifests(ManifestOptions(kustomize=str(tmp_path)), Host({"KUBECTL": str(tmp_path / "kubectl")}))


async def test_a_kustomization_at_a_url_is_left_to_kubectl_as_it_was_typed(tmp_path: Path) -> None:
    url = "https://example.com/team//agents?ref=v1"
    program = tmp_path / "kubectl"
    program.write_text(
        '#!/bin/sh\ntest "$#$1$2" = "2kustomize$URL" || exit 1\n'
        "echo '{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, metadata: {name: a}}'\n".replace("$URL", url)
    )
    program.chmod(0o700)
    found, _ = await read_manifests(ManifestOptions(kustomize=url), Host({"KUBECTL": str(program)}))
    assert [one.name for one in found] == ["a"]
