"""DaemonSets that others publish, each reduced by us to what is special about it.

What is left out is said nowhere; `nodes` are those of `NODES` on which it runs. The first container is the one whose
image is updated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.beds.api import Object
from tests.beds.objects import V1, requires

LINUX = {"kubernetes.io/os": "linux"}
NODES: dict[str, tuple[dict[str, str], list[dict[str, str]]]] = {
    "plain-1": (LINUX, []),
    "plain-2": (LINUX, []),
    "control": (
        {**LINUX, "node-role.kubernetes.io/control-plane": ""},
        [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
    ),
    "gpu": (
        {**LINUX, "nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-0300_8086.present": "true"},
        [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    ),
    "windows": ({"kubernetes.io/os": "windows"}, [{"key": "os", "value": "windows", "effect": "NoSchedule"}]),
}
"""Labels and taints of each."""

PLAIN = ("plain-1", "plain-2")
WITH_CONTROL = (*PLAIN, "control")
ON_LINUX = (*WITH_CONTROL, "gpu")
EVERYWHERE = (*ON_LINUX, "windows")

ALL: Object = {"tolerations": [{"operator": "Exists"}]}
CONTROL: Object = {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
CRITICAL: Object = {"priorityClassName": "system-node-critical"}
ON_HOST: Object = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
OS_LINUX: Object = {"nodeSelector": LINUX}


class Public(NamedTuple):
    special: str
    nodes: tuple[str, ...]
    pod: Object
    strategy: Object
    spec: Object


def public(special: str, nodes: tuple[str, ...], *pods: Object, **spec: Any) -> Public:
    """`pods` are parts of the pod's spec, `spec` is the `updateStrategy` and what else the DaemonSet's has."""
    pod: Object = {}
    for part in pods:
        pod |= part
    strategy: Object = spec.pop("updateStrategy", {})
    return Public(special, nodes, pod, strategy, spec)


def rolling(**fields: Any) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": fields}


def main(**fields: Any) -> Object:
    """The pod's one container."""
    return {"containers": [container("main", **fields)]}


def container(name: str, **fields: Any) -> Object:
    return {"name": name, "image": V1, **fields}


def volumes(*mounted: str, propagation: str = "") -> Object:
    """hostPath volumes, and one container that mounts them."""
    more = {"mountPropagation": propagation} if propagation else {}
    mounts = [{"name": f"v{n}", "mountPath": path, **more} for n, path in enumerate(mounted)]
    paths = [{"name": f"v{n}", "hostPath": {"path": path}} for n, path in enumerate(mounted)]
    return {"containers": [container("main", volumeMounts=mounts)], "volumes": paths}


def env(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


PROBE = {"httpGet": {"path": "/healthz", "port": 9099}, "periodSeconds": 10}
REGISTRAR = container("node-driver-registrar", args=["--csi-address=/csi/csi.sock"])
LIVENESS = container("liveness-probe", args=["--csi-address=/csi/csi.sock"])


def csi(*sidecars: Object, **fields: Any) -> Object:
    """A driver beside its sidecars, which share a socket on the node."""
    mounts = [{"name": "socket", "mountPath": "/csi"}]
    driver = container("driver", securityContext={"privileged": True}, **fields)
    paths = [{"name": "socket", "hostPath": {"path": "/var/lib/kubelet/plugins/x", "type": "DirectoryOrCreate"}}]
    return {"containers": [{**one, "volumeMounts": mounts} for one in (driver, *sidecars)], "volumes": paths}


PUBLIC = {
    # Log agents
    "fluent-bit": public("reads the logs of the node", PLAIN, volumes("/var/log", "/etc/machine-id")),
    "fluentd": public("tolerates the control plane", WITH_CONTROL, volumes("/var/log"), CONTROL, OS_LINUX),
    "filebeat": public("hostNetwork, and runs as root", PLAIN, volumes("/var/lib/docker/containers"), ON_HOST),
    "vector": public(
        "terminationGracePeriodSeconds of a minute, minReadySeconds",
        PLAIN,
        volumes("/var/lib"),
        {"terminationGracePeriodSeconds": 60},
        minReadySeconds=5,
    ),
    "promtail": public(
        "a readiness probe, revisionHistoryLimit 2",
        WITH_CONTROL,
        CONTROL,
        main(readinessProbe={**PROBE, "failureThreshold": 5}),
        revisionHistoryLimit=2,
    ),
    "alloy": public(
        "a sidecar that reloads the configuration",
        PLAIN,
        {"containers": [container("alloy"), container("config-reloader")]},
    ),
    "datadog-agent": public(
        "init containers, hostPID, maxUnavailable 10%",
        EVERYWHERE,
        ALL,
        {"hostPID": True, "initContainers": [container("init-volume"), container("init-config")]},
        {"containers": [container("agent"), container("trace-agent"), container("process-agent")]},
        updateStrategy=rolling(maxUnavailable="10%"),
    ),
    "splunk-otel-collector": public(
        "host ports, GOMEMLIMIT from its limits",
        ON_LINUX,
        OS_LINUX,
        ALL,
        main(
            ports=[{"name": "otlp", "containerPort": 4317, "hostPort": 4317}],
            resources={"limits": {"cpu": "200m", "memory": "500Mi"}},
        ),
    ),
    # Networks
    "calico-node": public(
        "privileged init containers, exec probes, terminationGracePeriodSeconds 0",
        ON_LINUX,
        OS_LINUX,
        ALL,
        CRITICAL,
        ON_HOST,
        {"terminationGracePeriodSeconds": 0, "initContainers": [container("upgrade-ipam"), container("install-cni")]},
        main(livenessProbe={"exec": {"command": ["/bin/calico-node", "-felix-live"]}}, readinessProbe=PROBE),
        updateStrategy=rolling(maxUnavailable=1),
    ),
    "cilium": public(
        "a startup probe, AppArmor by annotation, anti-affinity to itself, maxUnavailable 2",
        ON_LINUX,
        OS_LINUX,
        ALL,
        CRITICAL,
        ON_HOST,
        main(startupProbe=PROBE, livenessProbe=PROBE, readinessProbe=PROBE),
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": "cilium"}}, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            }
        },
        updateStrategy=rolling(maxUnavailable=2),
    ),
    "kube-flannel": public(
        "required node affinity",
        ON_LINUX,
        ALL,
        ON_HOST,
        {
            "affinity": requires(
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
            )
        },
        volumes("/run/flannel", "/run/xtables.lock"),
    ),
    "kube-proxy": public(
        "maxUnavailable 10%, no probe",
        ON_LINUX,
        OS_LINUX,
        ALL,
        CRITICAL,
        ON_HOST,
        main(),
        updateStrategy=rolling(maxUnavailable="10%"),
    ),
    "aws-node": public(
        "an OnDelete that operators set, gRPC probes",
        ON_LINUX,
        OS_LINUX,
        ALL,
        ON_HOST,
        main(livenessProbe={"grpc": {"port": 50051}}, ports=[{"containerPort": 61678}]),
        updateStrategy={"type": "OnDelete"},
    ),
    "multus": public(
        "a memory limit of its own, files of the host", EVERYWHERE, ALL, volumes("/etc/cni/net.d", "/opt/cni/bin")
    ),
    "kube-router": public(
        "an init container that installs",
        WITH_CONTROL,
        CONTROL,
        ON_HOST,
        {"initContainers": [container("install-cni")]},
        main(livenessProbe=PROBE),
    ),
    "node-local-dns": public(
        "a host port, maxUnavailable 10%, dnsPolicy Default",
        EVERYWHERE,
        ALL,
        {"hostNetwork": True, "dnsPolicy": "Default"},
        main(ports=[{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}, {"containerPort": 53, "hostPort": 53}]),
        updateStrategy=rolling(maxUnavailable="10%"),
    ),
    "metallb-speaker": public(
        "capabilities, a secret of its peers, terminationGracePeriodSeconds 0",
        WITH_CONTROL,
        CONTROL,
        ON_HOST,
        {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "memberlist", "secret": {"secretName": "memberlist"}}],
        },
        main(
            env=[env("METALLB_NODE_NAME", "spec.nodeName"), env("METALLB_POD_NAME", "metadata.name")],
            securityContext={"capabilities": {"add": ["NET_RAW"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True},
            volumeMounts=[{"name": "memberlist", "mountPath": "/etc/ml_secret_key"}],
        ),
    ),
    "ingress-nginx": public(
        "a controller with host ports, preStop, maxSurge given as 0",
        PLAIN,
        {"terminationGracePeriodSeconds": 300},
        main(
            lifecycle={"preStop": {"exec": {"command": ["/wait-shutdown"]}}},
            ports=[{"containerPort": port, "hostPort": port} for port in (80, 443)],
        ),
        updateStrategy=rolling(maxUnavailable=1, maxSurge=0),
    ),
    # Storage
    "ebs-csi-node": public(
        "a driver and two sidecars, maxUnavailable 10%",
        ON_LINUX,
        OS_LINUX,
        ALL,
        CRITICAL,
        csi(REGISTRAR, LIVENESS),
        updateStrategy=rolling(maxUnavailable="10%"),
    ),
    "ebs-csi-node-windows": public(
        "os: windows, host process containers",
        ("windows",),
        {"nodeSelector": {"kubernetes.io/os": "windows"}, "os": {"name": "windows"}},
        {"tolerations": [{"operator": "Exists"}], "hostNetwork": True},
        main(securityContext={"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}),
    ),
    "secrets-store-csi-driver": public(
        "mounts that propagate both ways",
        ON_LINUX,
        OS_LINUX,
        ALL,
        volumes("/var/lib/kubelet/pods", propagation="Bidirectional"),
    ),
    "longhorn-manager": public(
        "no tolerations, an affinity that may be empty",
        PLAIN,
        {"affinity": {"nodeAffinity": {}}},
        main(readinessProbe={"tcpSocket": {"port": 9500}}),
    ),
    "rook-ceph-csi": public(
        "OnDelete, shared process namespace",
        PLAIN,
        {"shareProcessNamespace": True},
        csi(REGISTRAR),
        updateStrategy={"type": "OnDelete"},
    ),
    # Devices
    "nvidia-device-plugin": public(
        "affinity to labels of node feature discovery, a runtime class",
        ("gpu",),
        {"runtimeClassName": "nvidia", "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        {
            "affinity": requires(
                {"matchExpressions": [{"key": "feature.node.kubernetes.io/pci-10de.present", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]},
            )
        },
        main(env=[{"name": "FAIL_ON_INIT_ERROR", "value": "false"}]),
    ),
    "nvidia-driver-daemonset": public(
        "OnDelete with a startup probe of twenty minutes",
        ("gpu",),
        {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "hostPID": True},
        ALL,
        main(startupProbe={**PROBE, "failureThreshold": 120}),
        updateStrategy={"type": "OnDelete"},
    ),
    "dcgm-exporter": public(
        "a pod's security context with groups",
        ("gpu",),
        {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "securityContext": {"fsGroup": 65534}},
        ALL,
        main(),
    ),
    "intel-gpu-plugin": public(
        "an init container beside, a label of node feature discovery",
        ("gpu",),
        {"nodeSelector": {"feature.node.kubernetes.io/pci-0300_8086.present": "true"}},
        ALL,
        {"initContainers": [container("initcontainer")]},
        main(),
    ),
    # Monitoring and the nodes themselves
    "node-exporter": public(
        "hostPID and hostNetwork, maxUnavailable 10%, maxSurge not possible",
        EVERYWHERE,
        {"tolerations": [{"effect": "NoSchedule", "operator": "Exists"}], "hostPID": True, **ON_HOST},
        main(ports=[{"containerPort": 9100, "hostPort": 9100}], args=["--path.rootfs=/host/root"]),
        updateStrategy=rolling(maxUnavailable="10%"),
    ),
    "node-problem-detector": public(
        "a probe-less root container, limits equal to requests",
        EVERYWHERE,
        ALL,
        main(resources={"limits": {"cpu": "10m"}, "requests": {"cpu": "10m"}}),
    ),
    "falco": public(
        "a native sidecar among the init containers",
        WITH_CONTROL,
        CONTROL,
        {"initContainers": [container("falcoctl-install"), container("falcoctl-follow", restartPolicy="Always")]},
        main(startupProbe=PROBE),
    ),
    "kured": public(
        "hostPID, a reboot sentinel, no more than one at a time",
        WITH_CONTROL,
        CONTROL,
        {"hostPID": True, "restartPolicy": "Always"},
        main(),
        updateStrategy=rolling(maxUnavailable=1),
    ),
}
