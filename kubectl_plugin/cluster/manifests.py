"""Advanced DaemonSets in files, folders, URLs, standard input and kustomizations, without asking the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, TextIO

import yaml
from aiohttp import ClientError, ClientSession

from controller.api.names import API_VERSION, GROUP, KIND
from controller.api.objects import JSON, JSONObject, Value, fields_of
from controller.kube.connection import tls_context
from controller.kube.kubeconfig import is_http_url
from kubectl_plugin.cluster.session import check_path_segment, proxy_for
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import ManifestOptions
from kubectl_plugin.host import Host
from kubectl_plugin.kubectl_yaml import KubectlLoader, json_documents
from kubectl_plugin.wording import command

MOST_BYTES: Final = 16 * 1024 * 1024
SECONDS: Final = 30.0
"""Seconds for one manifest, including all attempts."""
ATTEMPTS: Final = 3
"""As in kubectl: after no response, and after 5xx."""
DELAY: Final = 1.0
"""Seconds between two attempts."""
SUFFIXES: Final = (".json", ".yaml", ".yml")
"""Suffixes of files read from a folder, as in kubectl; a file that is given itself may have any name."""
STDIN: Final = "-"
_VERSIONS: Final = (API_VERSION, f"{GROUP}/v1alpha1")
_MOST_VALUES: Final = 1_000_000
"""Limit for one file. The API server accepts objects of up to 3 MiB."""


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


async def downloaded(
    url: str, environ: Mapping[str, str], *, seconds: float = SECONDS, pause: float = DELAY, most: int = MOST_BYTES
) -> str:
    """The text at `url`; sends no credentials. Raises CommandError; ConfigError for an invalid proxy."""
    if not is_http_url(url):
        raise UsageError(f'"{url}" is no URL')
    proxy, failed = proxy_for(url, environ), ""
    try:
        async with asyncio.timeout(seconds), ClientSession(trust_env=False) as session:
            for attempt in range(ATTEMPTS):
                if attempt:
                    await asyncio.sleep(pause)
                try:
                    return await _text(session, url, proxy, most)
                except _NoAnswer as error:
                    failed = str(error)
    except TimeoutError:
        failed = f"it takes more than {seconds:g} s"
    raise CommandError(f"cannot read {url}: {failed}")


class _NoAnswer(Exception):
    """Another attempt may succeed."""


async def _text(session: ClientSession, url: str, proxy: str, most: int) -> str:
    body = bytearray()
    try:
        async with session.get(url, proxy=proxy or None, ssl=tls_context()) as response:
            if response.status != 200:
                words = f"the server answers {response.status} {response.reason or ''}".rstrip()
                raise _NoAnswer(words) if response.status >= 500 else CommandError(f"cannot read {url}: {words}")
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > most:
                    raise CommandError(f"cannot read {url}: it has more than {most:,} bytes")
        return body.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"cannot read {url}: {error}") from error
    except (ClientError, OSError, ValueError) as error:
        raise _NoAnswer(" ".join(str(error).split()) or type(error).__name__) from error


class Manifest(Value):
    """An Advanced DaemonSet as written, without the server's defaults."""

    source: str
    """Where it was read from, for messages."""
    namespace: str
    """Empty if not set."""
    name: str
    document: JSONObject


async def read_manifests(options: ManifestOptions, host: Host) -> tuple[tuple[Manifest, ...], tuple[JSONObject, ...]]:
    """The Advanced DaemonSets in the order of the files, perhaps with duplicates, and the other objects. Runs
    `kubectl kustomize` for a kustomization. Raises CommandError for an unreadable source and if none is found."""
    files, kustomize = options.files, options.kustomize
    texts = [(await text_at(source, host), source) for source in _sources_in(files, recursive=options.recursive)]
    texts += [(await _kustomized(kustomize, host), kustomize)] if kustomize is not None else []
    found: list[Manifest] = []
    others: list[JSONObject] = []
    for text, source in texts:
        ours, beside = manifests_in(text, source)
        found += ours
        others += beside
    if not found:
        where = ", ".join((*files, *([kustomize] if kustomize else [])))
        native = any((other.get("kind"), _group(other)) == (KIND, "apps") for other in others)
        words = f"those of apps/v1 are moved over by {command('migrate NAME')}; its --print has the new manifest"
        hints = (words,) if native else ()
        raise CommandError(f"no Advanced DaemonSet in {where}", *hints)
    return tuple(found), tuple(others)


def manifests_in(text: str, source: str) -> tuple[list[Manifest], list[JSONObject]]:
    """The Advanced DaemonSets and other objects in `text`: YAML or JSON, several documents, Lists. Raises
    CommandError, also for an Advanced DaemonSet without a name."""
    ours: list[Manifest] = []
    others: list[JSONObject] = []
    for document in objects_in(text, source):
        if document.get("kind") == KIND and _group(document) == GROUP:
            ours.append(_manifest(document, source))
        else:
            others.append(document)
    return ours, others


def objects_in(text: str, source: str) -> list[JSONObject]:
    """All objects in `text`, with Lists expanded. Raises CommandError if it is neither YAML nor JSON."""
    return list(_objects(_documents(text, source)))


def _group(document: JSONObject) -> str:
    return str(document.get("apiVersion") or "").rpartition("/")[0]


def _manifest(document: JSONObject, source: str) -> Manifest:
    fields = fields_of(document.get("metadata"))
    name, namespace = fields.get("name"), fields.get("namespace") or ""
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        raise CommandError(f"{source}: an Advanced DaemonSet without metadata.name")
    if (version := document.get("apiVersion")) not in _VERSIONS:
        raise CommandError(f'{source}: no matches for kind "{KIND}" in version "{version}"; use {_VERSIONS[0]}')
    check_path_segment(name, f"metadata.name in {source}")
    check_path_segment(namespace, f"metadata.namespace in {source}")
    return Manifest(source=source, namespace=namespace, name=name, document=document)


def _objects(documents: Iterable[JSON]) -> Iterator[JSONObject]:
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if isinstance(items, list) and str(document.get("kind") or "").endswith("List"):
            yield from _objects(items)
        else:
            yield document


def _documents(text: str, source: str) -> list[JSON]:
    """As in kubectl, text that begins with a brace is JSON if it parses as such, else YAML. Raises CommandError."""
    try:
        if text.lstrip().startswith("{"):
            with suppress(ValueError):
                return json_documents(text)
        values = count()
        return [_with_text_keys(one, values) for one in yaml.load_all(text, Loader=KubectlLoader)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark is not None else ""
        words = getattr(error, "problem", None) or " ".join(str(error).split())
        raise CommandError(f"{source}:{line} {words}") from error
    except RecursionError as error:
        raise CommandError(f"{source}: nests too deeply, or within itself") from error


def _with_text_keys(value: object, values: Iterator[int]) -> JSON:
    """`value` with string keys. Raises YAMLError, also above `_MOST_VALUES`, because nested aliases multiply."""
    if next(values) > _MOST_VALUES:
        raise yaml.YAMLError(f"holds more than {_MOST_VALUES:,} values")
    match value:
        case dict():
            return {_key(key): _with_text_keys(one, values) for key, one in value.items()}
        case list():
            return [_with_text_keys(one, values) for one in value]
        case None | str() | bool() | int() | float():
            return value
        case _:
            raise yaml.YAMLError(f"a tag makes a value a {type(value).__name__}, which JSON does not have")


def _key(key: object) -> str:
    """The key as text. Raises YAMLError if kubectl rejects it, or would change it to another number."""
    if key is None or (isinstance(key, float) and f"{key:.7g}" != str(key)):
        raise yaml.YAMLError(f"the key {'null' if key is None else key} is no text: put it in quotes")
    return str(key).lower() if isinstance(key, bool) else str(key)


def _sources_in(named: Sequence[str], *, recursive: bool) -> Iterator[str]:
    for one in named:
        path = Path(one)
        if one == STDIN or is_url(one) or not path.is_dir():
            yield one
            continue
        inside = sorted(path.rglob("*") if recursive else path.iterdir())
        yield from (str(file) for file in inside if file.suffix in SUFFIXES and file.is_file())


async def text_at(source: str, host: Host) -> str:
    """The text of a file, a URL, or standard input for `-`. Raises CommandError."""
    return await downloaded(source, host.environ) if is_url(source) else _text_here(source, host.stdin)


def _text_here(source: str, stdin: TextIO) -> str:
    try:
        if source != STDIN:
            return Path(source).read_bytes().decode("utf-8-sig")
        typed = getattr(stdin, "buffer", None)  # whatever the locale is
        return typed.read().decode("utf-8-sig") if typed else stdin.read()
    except FileNotFoundError as error:
        raise CommandError(f'the path "{source}" does not exist') from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from error


async def _kustomized(folder: str, host: Host) -> str:
    """The output of `kubectl kustomize`. `folder` may be a URL; $KUBECTL may replace kubectl. Raises CommandError."""
    program = host.environ.get("KUBECTL") or "kubectl"
    try:
        code, out, err = await host.run_program(program, "kustomize", folder)
    except OSError as error:
        raise CommandError(f"-k needs {program} to build {folder}: {error.strerror}") from error
    if code:
        words = " ".join(err.decode(errors="replace").split()).removeprefix("error: ")
        raise CommandError(f"kubectl kustomize {folder}: {words}")
    return out.decode()
