"""Recognises DaemonSets that belong to the cluster network: other pods, our controller's included, may need them to
start."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSONObject, fields_of, items_of, value_at

_PROXY: Final = "kube-proxy"


def network_sign(document: JSONObject) -> str:
    """Why it looks like a network plugin or kube-proxy, such as `mounts /etc/cni/net.d as a network plugin does`;
    empty if it does not."""
    template = fields_of(value_at(document, "spec", "template"))
    pod, meta = fields_of(template.get("spec")), fields_of(document.get("metadata"))
    mounted = (str(value_at(one, "hostPath", "path") or "") for one in items_of(pod.get("volumes")))
    if folder := next((path for path in mounted if "cni" in path.split("/")), ""):
        return f"mounts {folder} as a network plugin does"
    labels = (fields_of(one.get("labels")) for one in (meta, fields_of(template.get("metadata"))))
    named = meta.get("name") == _PROXY or any(one.get("k8s-app") == _PROXY for one in labels)
    is_proxy = named and meta.get("namespace") == "kube-system" and pod.get("hostNetwork") is True
    return f"looks like {_PROXY}" if is_proxy else ""
