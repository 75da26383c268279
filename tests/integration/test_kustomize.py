"""Kustomizations, which kubectl builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_plugin.cluster.manifests import read_manifests
from kubectl_plugin.failures import CommandError
from kubectl_plugin.flags import ManifestOptions
from kubectl_plugin.host import Host
from tests.unit.kubectl_plugin.cluster.test_manifests import at


async def test_a_kustomization_is_built(tmp_path: Path) -> None:
    (tmp_path / "ds.yaml").write_text("apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: a}\n")
    (tmp_path / "kustomization.yaml").write_text("namespace: obs\nnamePrefix: edge-\nresources: [ds.yaml]\n")
    assert await at(kustomize=tmp_path) == ["obs/edge-a"]


async def test_a_broken_kustomization_is_told_in_kubectls_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"kubectl kustomize .*: .*kustomization"):
        await at(kustomize=tmp_path)


async def test_without_kubectl_there_is_no_kustomize(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="-k needs"):
        await read_manifests(ManifestOptions(kustomize=tmp_path), Host({"KUBECTL": str(tmp_path / "kubectl")}))
