"""When two templates are the same, and above all: when they are not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from controller.api.objects import JSON, JSONObject
from controller.api.template_identity import MOST_VALUES, canonical, identity
from tests.beds import templates


def test_what_an_api_server_stores_means_what_was_written() -> None:
    """Of every kind of volume, probe, handler and port; tests/contract asks the real server for it."""
    sent, answer = templates.given("written"), templates.stored("written")
    assert canonical(answer) == canonical(templates.known_part(sent, answer))
    assert canonical(templates.stored("zeros")) == canonical(templates.given("zeros"))


def test_the_order_of_fields_does_not_matter_that_of_containers_does() -> None:
    written = templates.given("written")
    kept = copy.deepcopy(written)
    assert identity({**written, "spec": dict(reversed(written["spec"].items()))}) == identity(written)
    assert written == kept, "the template itself is left alone"
    two: Any = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    assert identity(two) != identity({"spec": {"containers": two["spec"]["containers"][::-1]}})


SAME = """\
"null": [{hostUsers: null}, {}]
empty string: [{subdomain: ''}, {}]
empty map: [{securityContext: {}}, {}]
empty list: [{tolerations: []}, {}]
nested empties: [{affinity: {nodeAffinity: {preferred: []}}}, {}]
defaults of a pod: [{enableServiceLinks: true, serviceAccountName: default}, {}]
stray patch: [{$patch: replace, dnsPolicy: None}, {dnsPolicy: None}]
service account twin: [{serviceAccountName: net, serviceAccount: net}, {serviceAccountName: net}]
the deprecated name of a service account: [{serviceAccount: net}, {serviceAccountName: net}]
an overruled service account: [{serviceAccountName: net, serviceAccount: other}, {serviceAccountName: net}]
quantity: [{volumes: [{emptyDir: {sizeLimit: 1Gi}}]}, {volumes: [{emptyDir: {sizeLimit: 1024Mi}}]}]
divisor: [{valueFrom: {resourceFieldRef: {divisor: 1M}}}, {valueFrom: {resourceFieldRef: {divisor: 1000k}}}]
"the host port of a pod on the host network, as older servers fill it in":
- {hostNetwork: true, containers: [{ports: [{containerPort: 80, hostPort: 80}]}]}
- {hostNetwork: true, containers: [{ports: [{containerPort: 80}]}]}
overhead: [{overhead: {cpu: 1000m}}, {overhead: {cpu: 1}}]
the days of a pod certificate:
- {volumes: [{projected: {sources: [{podCertificate: {maxExpirationSeconds: 86400}}]}}]}
- {volumes: [{projected: {sources: [{podCertificate: {}}]}}]}
null among labels: [{nodeSelector: {os: linux, x: null}}, {nodeSelector: {os: linux}}]
"""
SAME_CONTAINERS = """\
host port 0: [{ports: [{containerPort: 1, hostPort: 0}]}, {ports: [{containerPort: 1}]}]
numeric quantity: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 1000m}}}]
digest is pulled if not present:
- {image: 'demo@sha256:00', imagePullPolicy: IfNotPresent}
- {image: 'demo@sha256:00'}
"latest is pulled always, with a digest too":
- {image: 'demo:latest@sha256:00', imagePullPolicy: Always}
- {image: 'demo:latest@sha256:00'}
a port of the registry is no tag:
- {image: 'registry.example:5000/demo', imagePullPolicy: Always}
- {image: 'registry.example:5000/demo'}
numbers of a probe that are 0:
- {readinessProbe: {initialDelaySeconds: 0, periodSeconds: 0}}
- {readinessProbe: {periodSeconds: 10}}
less than a thousandth: [{resources: {limits: {cpu: 100u}}}, {resources: {limits: {cpu: 1m}}}]
null among quantities: [{resources: {limits: {cpu: null, memory: '1'}}}, {resources: {limits: {memory: '1'}}}]
"""


DIFFERENT = """\
no token: [{automountServiceAccountToken: false}, {}]
no service links: [{enableServiceLinks: false}, {}]
no host users: [{hostUsers: false}, {}]
host network: [{hostNetwork: true}, {}]
user 0: [{securityContext: {runAsUser: 0}}, {securityContext: {}}]
optional: [{volumes: [{secret: {optional: true}}]}, {volumes: [{secret: {}}]}]
sidecar: [{initContainers: [{name: a, restartPolicy: Always}]}, {initContainers: [{name: a}]}]
grace of the pod: [{terminationGracePeriodSeconds: 31}, {}]
empty selector selects everything:
- {topologySpreadConstraints: [{labelSelector: {}}]}
- {topologySpreadConstraints: [{}]}
no storage class:
- {volumes: [{ephemeral: {volumeClaimTemplate: {spec: {storageClassName: ''}}}}]}
- {volumes: [{ephemeral: {volumeClaimTemplate: {spec: {}}}}]}
a label without text: [{nodeSelector: {edge: ''}}, {nodeSelector: {}}]
a label called like a default: [{nodeSelector: {protocol: TCP}}, {nodeSelector: {}}]
"1 is not true": [{hostNetwork: 1}, {hostNetwork: true}]
"0 is not false": [{hostNetwork: 0}, {}]
a new field: [{fieldOfTheYear2040: 1}, {}]
path outside a probe: [{volumes: [{hostPath: {path: /}}]}, {volumes: [{hostPath: {}}]}]
another service account: [{serviceAccountName: net}, {}]
an attribute of a CSI volume:
- {volumes: [{csi: {driver: d, volumeAttributes: {protocol: TCP}}}]}
- {volumes: [{csi: {driver: d, volumeAttributes: {}}}]}
an empty option of a flexVolume:
- {volumes: [{flexVolume: {driver: d, options: {share: ''}}}]}
- {volumes: [{flexVolume: {driver: d, options: {}}}]}
another host port on the host network:
- {hostNetwork: true, containers: [{ports: [{containerPort: 80, hostPort: 81}]}]}
- {hostNetwork: true, containers: [{ports: [{containerPort: 80}]}]}
the default of another volume: [{volumes: [{cinder: {fsType: ext4}}]}, {volumes: [{cinder: {}}]}]
the user of another volume: [{volumes: [{cephfs: {user: admin}}]}, {volumes: [{cephfs: {}}]}]
a managed disk: [{volumes: [{azureDisk: {kind: Managed}}]}, {volumes: [{azureDisk: {}}]}]
the policy of an image volume:
- {volumes: [{image: {reference: data, pullPolicy: IfNotPresent}}]}
- {volumes: [{image: {reference: data}}]}
"""
DIFFERENT_CONTAINERS = """\
image: [{image: 'demo:1'}, {image: 'demo:2'}]
env value: [{env: [{name: A, value: '1'}]}, {env: [{name: A, value: '2'}]}]
env order: [{env: [{name: A}, {name: B}]}, {env: [{name: B}, {name: A}]}]
port: [{ports: [{containerPort: 80}]}, {ports: [{containerPort: 81}]}]
host port: [{ports: [{containerPort: 80, hostPort: 80}]}, {ports: [{containerPort: 80}]}]
protocol: [{ports: [{containerPort: 80, protocol: UDP}]}, {ports: [{containerPort: 80}]}]
"read-only root, said to be off": [{securityContext: {readOnlyRootFilesystem: false}}, {}]
"read-only root":
- {securityContext: {readOnlyRootFilesystem: true}}
- {securityContext: {readOnlyRootFilesystem: false}}
run as root allowed: [{securityContext: {allowPrivilegeEscalation: false}}, {securityContext: {}}]
"read-only mount": [{volumeMounts: [{readOnly: true}]}, {volumeMounts: [{}]}]
grace of a probe: [{livenessProbe: {terminationGracePeriodSeconds: 30}}, {livenessProbe: {periodSeconds: 10}}]
pull policy: [{image: 'demo:1', imagePullPolicy: Always}, {image: 'demo:1'}]
never pulled: [{image: demo, imagePullPolicy: Never}, {image: demo}]
quantity: [{resources: {limits: {memory: 1Gi}}}, {resources: {limits: {memory: 1G}}}]
"optional, said to be off":
- {env: [{valueFrom: {secretKeyRef: {optional: false}}}]}
- {env: [{valueFrom: {secretKeyRef: {}}}]}
a sleep of no seconds: [{lifecycle: {preStop: {sleep: {seconds: 0}}}}, {lifecycle: {preStop: {sleep: {}}}}]
args: [{args: [a, '']}, {args: [a]}]
"""


def rules(pods: str, containers: str) -> list[Any]:
    """Pairs of pod specs by name, from tables of pod specs and of containers."""
    found = yaml.safe_load(pods) | {
        name: [{"containers": [one]} for one in pair] for name, pair in yaml.safe_load(containers).items()
    }
    return [pytest.param(*pair, id=name) for name, pair in found.items()]


@pytest.mark.parametrize(("one", "other"), rules(SAME, SAME_CONTAINERS))
def test_what_means_the_same(one: JSONObject, other: JSONObject) -> None:
    assert identity({"spec": one}) == identity({"spec": other})


@pytest.mark.parametrize(("one", "other"), rules(DIFFERENT, DIFFERENT_CONTAINERS))
def test_a_real_change_is_not_lost(one: JSONObject, other: JSONObject) -> None:
    assert identity({"spec": one}) != identity({"spec": other})


def test_annotations_and_labels_of_the_pod_are_part_of_it() -> None:
    assert identity({"metadata": {"annotations": {"restartedAt": "1"}}}) != identity({"metadata": {}})
    assert identity({"metadata": {"labels": {"a": ""}}}) != identity({"metadata": {}})


@pytest.mark.parametrize(
    "values", [[1] * MOST_VALUES, [{}] * MOST_VALUES, {f"k{number}": 1 for number in range(MOST_VALUES)}]
)
def test_a_template_of_too_many_values_is_refused(values: JSON) -> None:
    with pytest.raises(ValueError, match="more than 20,000 values"):
        identity({"spec": {"anything": values}})


def test_a_long_text_counts_as_one_value() -> None:
    assert identity({"spec": {"anything": "x" * 1_500_000}})
