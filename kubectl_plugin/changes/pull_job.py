"""The ImagePullJob that `pull` creates. Functions raise UsageError for invalid arguments."""

from __future__ import annotations

import re
from typing import Final

from controller.api.containers import canonical
from controller.api.formats import IntOrPercent
from controller.api.image_pull_job import JOB_KIND
from controller.api.names import API_VERSION
from controller.api.objects import JSON, JSONObject
from controller.api.revision import short_hash
from controller.api.selector import is_label_key, is_label_value, is_subdomain
from kubectl_plugin.errors import CommandError, UsageError

TTL_SECONDS: Final = 600
_MOST: Final = 1024
"""Maximum characters of an image name."""
_HOST: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]+)?")
_PATH: Final = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<no>!)\s*)?(?P<key>[^\s!=,()]+)\s*"
    r"(?:(?P<equals>==?|!=)\s*(?P<value>[^\s!=,()]*)|(?<=\s)(?P<among>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)
_OPERATORS: Final = {"in": "In", "notin": "NotIn", "!=": "NotIn"}


def pull_job(
    image: str, *, namespace: str, nodes: str | None, parallelism: IntOrPercent, secrets: tuple[str, ...], now: float
) -> JSONObject:
    """`nodes` is a node label selector in kubectl's syntax, None for all nodes; `now` is in seconds since 1970."""
    if not is_image(image):
        words = (
            f'"{image}" cannot be the name of an image: use HOST/PATH:TAG or HOST/PATH@DIGEST, the path in lower case'
        )
        raise UsageError(words)
    for secret in secrets:
        if not is_subdomain(secret):
            raise UsageError(f'invalid --pull-secret "{secret}": use the name of a Secret')
    selector = None if nodes is None else node_selector(nodes)
    pull_secrets: list[JSON] = [*secrets]
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {"name": _name(image, nodes or "", now), "namespace": namespace},
        "spec": {
            "image": image,
            **({"selector": selector} if selector is not None else {}),
            "parallelism": parallelism,
            **({"pullSecrets": pull_secrets} if secrets else {}),
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": TTL_SECONDS},
        },
    }


def node_selector(text: str) -> JSONObject:
    """Parses a selector such as `pool=gpu,zone in (a, b),!spot`."""
    labels: JSONObject = {}
    expressions: list[JSON] = []
    end = 0
    while end < len(text):
        found = _REQUIREMENT.match(text, end)
        if found is None or found.end() == end:
            raise _no_selector(text)
        end = found.end()
        key, sign = found["key"], found["equals"] or found["among"]
        values = [found["value"]] if found["equals"] else [one.strip() for one in (found["values"] or "").split(",")]
        if not is_label_key(key) or not all(map(is_label_value, values)) or (found["no"] and sign):
            raise _no_selector(text)
        if sign is None:
            expressions.append({"key": key, "operator": "DoesNotExist" if found["no"] else "Exists"})
        elif sign in ("=", "==") and labels.get(key, values[0]) == values[0]:
            labels[key] = values[0]
        else:
            expressions.append({"key": key, "operator": _OPERATORS.get(sign, "In"), "values": [*values]})
    if not labels and not expressions:
        raise _no_selector(text)
    return {
        **({"matchLabels": labels} if labels else {}),
        **({"matchExpressions": expressions} if expressions else {}),
    }


def _no_selector(text: str) -> CommandError:
    return UsageError(f'invalid -l "{text}": use labels of nodes such as pool=gpu, or "zone in (a,b),!spot"')


def is_image(text: str) -> bool:
    """Whether a kubelet accepts the text as an image name."""
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return False
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path = name
    elif not _TAG.fullmatch(tag):
        return False
    if ":" in path.rpartition("/")[2]:
        return False  # two tags
    host, _, rest = canonical(path).rpartition(":")[0].partition("/")  # `canonical` adds a tag, which is cut off here
    return len(text) <= _MOST and _HOST.fullmatch(host) is not None and _PATH.fullmatch(rest) is not None


def _name(image: str, nodes: str, now: float) -> str:
    """A name that shows the image and differs by nodes and time, so that the same command can run again later."""
    last = image.partition("@")[0].rpartition("/")[2]
    shown = re.sub(r"[^a-z0-9]+", "-", last.lower())[:40].strip("-")
    return f"pull-{shown}-{short_hash(image, nodes, f'{now:.3f}', length=6)}"
