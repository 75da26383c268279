"""Who may speak to the API server, with a kubeconfig or a bearer token; kubectl, and the smallest HTTP client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import json
import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class User:
    """A name that RBAC rules can bind to, with its groups and a bearer token of its own."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def service_account(namespace: str, name: str) -> User:
    """The user that pods of this service account are, so that its role bindings can be tried from outside."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def administrator() -> User:
    """May do everything."""
    return User("admin", ("system:masters",))


def write_tokens(path: Path, users: Sequence[User]) -> None:
    """Write the file that `--token-auth-file` reads."""
    with open(path, "w", newline="") as file:
        for user in users:
            csv.writer(file).writerow([user.token, user.name, user.name, ",".join(user.groups)])


def write_kubeconfig(path: Path, *, url: str, certificates: Path, user: User) -> None:
    """Write a kubeconfig (JSON, which is YAML too) with everything inside, so that the file can be moved."""
    authority = base64.b64encode(certificates.read_bytes()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kruise-ds", "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": "kruise-ds", "context": {"cluster": "kruise-ds", "user": user.name}}],
        "current-context": "kruise-ds",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2))


@dataclass(frozen=True, slots=True)
class KubectlResult:
    """What one call of kubectl said and how it ended."""

    args: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


async def run_kubectl(
    kubectl: Path,
    *args: str,
    kubeconfig: Path,
    cache: Path,
    stdin: str | None = None,
    seconds: float = 60.0,
    environ: Mapping[str, str] | None = None,
) -> KubectlResult:
    """Run kubectl to its end, with `environ` added to the environment; a return code other than 0 is a result, not an
    error.

    Raises TimeoutError after `seconds`; the process is gone then, as when the caller is cancelled.
    """
    command = (str(kubectl), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache), *args)
    env = {**os.environ, "KUBECTL_KUBERC": "false", **(environ or {})}
    return KubectlResult(args, *await run_to_end(command, env, stdin=stdin, seconds=seconds))


async def run_to_end(
    command: Sequence[str], env: Mapping[str, str], *, stdin: str | None = None, seconds: float = 60.0
) -> tuple[int, str, str]:
    """Run any program without a terminal: its return code, what it wrote, and what it wrote to stderr.

    Raises TimeoutError after `seconds`; the process is gone then, as when the caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=env,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(), err.decode()


async def get(
    url: str, *, token: str = "", certificates: Path | None = None, seconds: float = 5.0
) -> tuple[int, str]:
    """One GET; (status, body), or (0, reason) when there is no HTTP answer within `seconds`.

    An https server is verified against `certificates`; without them it is not, which is only good for a
    process that we have just started and that signs for itself.
    """
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    request = f"GET {target} HTTP/1.0\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    try:
        async with asyncio.timeout(seconds):
            tls = _tls(certificates) if parts.scheme == "https" else None
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
            return await answer_to(request, reader, writer)
    except (OSError, TimeoutError) as error:
        return 0, str(error) or type(error).__name__


async def answer_to(request: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, str]:
    """(status, body), or (0, reason) when that is no HTTP. The connection ends with it."""
    try:
        writer.write(request.encode())
        answer = (await reader.read()).decode(errors="replace")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    return (int(words[1]), body) if len(words) > 1 and words[1].isdigit() else (0, "not HTTP")


def _tls(certificates: Path | None) -> ssl.SSLContext:
    if certificates is not None:
        return ssl.create_default_context(cafile=certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take 20 ms to read
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
