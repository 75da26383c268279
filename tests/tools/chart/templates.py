"""The manifests as helm's templates: what people set is taken from the values, and every part has its condition."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.tools.chart.conditions import Condition, Line, also, conditioned, of_all
from tests.tools.chart.variants import CRDS, SEVERAL, WATCHED, Name, for_everybody, variant

HEADER: Final = "# Made by `make manifests` from manifests/base and manifests/components; edit the files there.\n"
NAMESPACE: Final = "{{ .Release.Namespace"
"""In quotes where it is all there is: 123 and 0x1f name namespaces, and true does."""
KEEP: Final = "    helm.sh/resource-policy: keep"


def _block(name: str, indent: int) -> tuple[str, str]:
    """A field of the manifest that is a value of the chart as a whole."""
    pad = " " * indent
    here = f"{pad}{name}:\n"
    return rf"^{here}({pad} .*\n)+", f"{here}{pad}  {{{{- toYaml .Values.{name} | nindent {indent + 2} }}}}\n"


def _list(name: str, indent: int) -> tuple[str, str]:
    """The same for a list of one item, to which a component may add its own."""
    pad = " " * indent
    return rf"^({pad}{name}:\n){pad}- .*\n({pad} .*\n)*", r"\g<1>" + _where_set(name, indent)


def _where_set(value: str, indent: int, field: str = "") -> str:
    """A field, or more items of a list, that the manifests do not have."""
    pad, deeper = " " * indent, indent + (2 if field else 0)
    named = [f"{field}:"] if field else []
    lines = [f"{{{{- with .Values.{value} }}}}", *named, f"{{{{- toYaml . | nindent {deeper} }}}}", "{{- end }}"]
    return "".join(f"{pad}{line}\n" for line in lines)


def _labels(value: str) -> tuple[tuple[str, str], ...]:
    return ((r"^    app.kubernetes.io/part-of: .*\n", r"\g<0>" + _where_set(value, 4)),)


def _environment(found: re.Match[str]) -> str:
    """With the gates of the component and those of the values in one variable."""
    component = [f'{{{{- $gates = append $gates "{found["gates"]}" }}}}'] if found["gates"] else []
    lines = ["{{- $gates := list }}", *component, *GATES]
    return found["others"] + "".join(f"        {line}\n" for line in lines) + _where_set("extraEnv", 8)


_MOUNT: Final = ("- mountPath: /etc/kruise-ds/prometheus-{0}", "  name: prometheus-{0}", "  readOnly: true")
_VOLUME: Final = ("- name: prometheus-{0}", "  secret:", "    secretName: {{{{ . }}}}")


def _of_checks(indent: int, item: tuple[str, ...]) -> str:
    """An item for each of the Secrets of `checks`."""
    pad, found = " " * indent, ""
    for kind in ("token", "ca"):
        lines = ["{{{{- with .Values.checks.{0}Secret }}}}", *(pad + line for line in item), "{{{{- end }}}}"]
        found += "".join(line.format(kind) + "\n" for line in lines)
    return found


CHECKS: Final = """\
{{- with .Values.checks.prometheusUrl }}
        - --prometheus-url={{ . }}
{{- end }}
{{- if .Values.checks.tokenSecret }}
        - --prometheus-token-file=/etc/kruise-ds/prometheus-token/token
{{- end }}
{{- if .Values.checks.caSecret }}
        - --prometheus-ca-file=/etc/kruise-ds/prometheus-ca/ca.crt
{{- end }}
"""
PROMETHEUS_PORT: Final = """\
{{- with .Values.checks.prometheusUrl }}
{{- $usual := hasPrefix "https" . | ternary 443 80 }}
    - port: {{ regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default $usual }}
      protocol: TCP
{{- end }}
"""
GATES: Final = (
    "{{- range $gate, $on := .Values.featureGates }}",
    '{{- $gates = append $gates (printf "%s=%t" $gate $on) }}',
    "{{- end }}",
    "{{- with $gates }}",
    "- name: KRUISE_DS_FEATURE_GATES",
    '  value: {{ join "," . }}',
    "{{- end }}",
)
Replacement = tuple[str, str | Callable[[re.Match[str]], str]]
"""A pattern, and what comes in its place."""
ENVIRONMENT: Final = (
    r"^(?P<others>        env:\n(        [- ] .*\n)+?)"
    r"(        - name: KRUISE_DS_FEATURE_GATES\n          value: (?P<gates>.*)\n)?(?!        [- ] )"
)
DEPLOYMENT: Final[tuple[Replacement, ...]] = (
    (r"^  replicas: .*", "  replicas: {{ .Values.replicas }}"),
    (
        r"^        image: .*",
        "        image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
        "{{ with .Values.image.digest }}@{{ . }}{{ end }}",
    ),
    (r"^      - args:\n(        - .*\n)+", r"\g<0>" + CHECKS + _where_set("extraArgs", 8)),
    (r"^        - mountPath: /tmp\n          name: tmp\n", r"\g<0>" + _of_checks(8, _MOUNT)),
    (r"^          sizeLimit: 16Mi\n        name: tmp\n", r"\g<0>" + _of_checks(6, _VOLUME)),
    (ENVIRONMENT, _environment),
    (
        r"^      priorityClassName: .*\n",
        "      {{- with .Values.priorityClassName }}\n      priorityClassName: {{ . | quote }}\n      {{- end }}\n",
    ),
    _block("resources", 8),
    _block("nodeSelector", 6),
    _list("tolerations", 6),
    (
        r"^      automountServiceAccountToken: true\n",
        r"\g<0>" + _where_set("affinity", 6, "affinity") + _where_set("image.pullSecrets", 6, "imagePullSecrets"),
    ),
)
MORE_PORTS: Final = """\
{{- range .Values.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
{{- end }}
"""
REPLACED: Final[Mapping[str, tuple[Replacement, ...]]] = {
    "Deployment": DEPLOYMENT,
    "NetworkPolicy": ((r"^    - port: 16443\n      protocol: TCP\n", r"\g<0>" + MORE_PORTS + PROMETHEUS_PORT),),
    "ServiceMonitor": _labels("monitorLabels"),
    "PrometheusRule": _labels("monitorLabels"),
}
"""By kind what is in its place, by patterns that are each there once."""


def templates(kubectl: Path) -> dict[str, str]:
    """The files of the chart's folder `templates` by their names, one for each kind."""
    files: dict[str, str] = defaultdict(lambda: HEADER)
    for name, lines in conditioned(lambda on: _templated(variant(kubectl, on))).items():
        if name.kind == "Namespace":
            continue  # it is helm that makes its own
        if name.name in for_everybody():
            lines = also(lines, whatever=WATCHED)
        if name.kind == "CustomResourceDefinition":
            lines = also(lines, asked=CRDS)
        if (CRDS, True) in of_all(lines):
            lines = list(_kept(lines))
        files[f"{name.kind.lower()}.yaml"] += "".join(f"{line}\n" for line in _written(lines))
    return files


def _templated(objects: Mapping[Name, str]) -> dict[Name, str]:
    return {name: _with_values(name, text + "\n") for name, text in objects.items()}


def _with_values(name: Name, text: str) -> str:
    text = text.replace("{{", '{{ "{{" }}')  # what Prometheus and Grafana are to read
    text = re.sub(r"(?<=[:-] )kruise-ds-system$", NAMESPACE + " | quote }}", text, flags=re.MULTILINE)
    text = text.replace("kruise-ds-system", NAMESPACE + " }}")
    text = text.replace("team-a", "{{ .Values.watchNamespace | quote }}")
    for pattern, template in REPLACED.get(name.kind, ()):
        text, count = re.subn(pattern, template, text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"the {name.kind} has {count} times instead of once: {pattern}")
    return text


def _kept(lines: list[Line]) -> Iterator[Line]:
    """The same object, which helm leaves alone when it uninstalls."""
    has_some = any(line.text == "  annotations:" for line in lines)
    for line in lines:
        yield line
        if line.text == ("  annotations:" if has_some else "metadata:"):
            more = [KEEP] if has_some else ["  annotations:", KEEP]
            yield from (Line(text, line.condition) for text in more)


def _written(lines: list[Line]) -> Iterator[str]:
    whole = of_all(lines)
    if whole:
        yield "{{- if " + _expression(whole) + " }}"
    yield "---"
    for condition, part in groupby(lines, key=lambda line: line.condition - whole):
        if condition:
            yield "{{- if " + _expression(condition) + " }}"
        yield from (line.text for line in part)
        if condition:
            yield "{{- end }}"
    if whole:
        yield "{{- end }}"


def _expression(condition: Condition) -> str:
    parts = [_part(value, on) for value, on in sorted(condition)]
    return parts[0] if len(parts) == 1 else f"and {' '.join(f'({one})' if ' ' in one else one for one in parts)}"


def _part(value: str, on: bool) -> str:
    if value == SEVERAL:
        return "gt (int .Values.replicas) 1" if on else "le (int .Values.replicas) 1"
    return f".Values.{value}" if on else f"not .Values.{value}"
