#!/usr/bin/env python3
"""Lets pods go that a preDelete hook holds, by kubectl: `let-go.py NAMESPACE [SECONDS]`.

For each pod in PreparingDelete: is its node still there? Then do what has to be done first. Then take the label away,
unless the pod is to stay after all. Its account needs: get nodes; list and patch pods.
"""

import json
import random
import subprocess
import sys
import threading
import time

STATE, LABEL = "lifecycle.apps.kruise.io/state", "example.io/block-deleting"
GO = [
    {"op": "test", "path": "/metadata/labels/" + STATE.replace("/", "~1"), "value": "PreparingDelete"},
    {"op": "remove", "path": "/metadata/labels/" + LABEL.replace("/", "~1")},
]


def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False)


def let_go(namespace: str, pod: str, node: str, seconds: float) -> None:
    if kubectl("get", "node", node).returncode == 0:
        time.sleep(random.uniform(0, seconds))  # your work: reserve the node's resources, move what the pod holds
    done = kubectl("patch", "pod", pod, "-n", namespace, "--type=json", "-p", json.dumps(GO))
    print(pod, "on", node, "may go" if done.returncode == 0 else f"stays: {done.stderr.strip()}", flush=True)


def main(namespace: str, seconds: float) -> None:
    working: dict[str, threading.Thread] = {}
    while True:
        found = kubectl("get", "pods", "-n", namespace, "-l", f"{STATE}=PreparingDelete,{LABEL}", "-o", "json")
        for pod in json.loads(found.stdout)["items"] if found.returncode == 0 else []:
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            if "deletionTimestamp" not in meta and not (meta["uid"] in working and working[meta["uid"]].is_alive()):
                words = (namespace, meta["name"], node, seconds)
                working[meta["uid"]] = threading.Thread(target=let_go, args=words, daemon=True)
                working[meta["uid"]].start()
        time.sleep(0.5)


main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
