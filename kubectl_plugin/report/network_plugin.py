"""DaemonSets that look like a network plugin: pods may need them to start, our controller's own too."""

from __future__ import annotations

from controller.api.base import JSONObject, fields_of, items_of


def cni_folder(template: JSONObject) -> str:
    """The folder of CNI plugins or of their configuration that its pods have from the node, such as /etc/cni/net.d;
    empty where they have none."""
    volumes = items_of(fields_of(template.get("spec")).get("volumes"))
    paths = (str(fields_of(one.get("hostPath")).get("path") or "") for one in volumes)
    return next((path for path in paths if "cni" in path.split("/")), "")
