"""Rules of our own for workflows, about what others could change or use: actionlint has none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = tuple(sorted((ROOT / ".github" / "workflows").glob("*.yml")))

_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_IMAGES = ("driver-opts", "image", "sbom")
"""Inputs of actions that name an image, which then runs with all that the job may do."""


def broken_rules(text: str) -> list[str]:
    """What is wrong with this workflow, one line for each; empty when nothing is."""
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    in_jobs = (line for name, job in jobs.items() for line in _job(name, job))
    return [*_pins(text, jobs.values()), *_rights(workflow), *in_jobs]


def _pins(text: str, jobs: Any) -> Iterator[str]:
    """A tag can be moved to other code, a commit cannot."""
    used = {one["uses"] for job in jobs for one in (job, *job.get("steps", ())) if "uses" in one}
    for action in sorted(one for one in used if not one.startswith("./")):
        if not _PINNED.fullmatch(action):
            yield f"{action} is not pinned by the digest of a commit"
        elif re.findall(rf"{re.escape(action)}(?! # v\d+\.\d+\.\d+$)", text, re.MULTILINE):
            yield f"{action} does not say of which release it is, such as # v1.2.3"


def _rights(workflow: Any) -> Iterator[str]:
    rights = workflow.get("permissions")
    if not isinstance(rights, dict) or "write" in rights.values():
        yield "what all jobs may do is not said, or more than to read: each job asks for what it needs"
    if "concurrency" not in workflow:
        yield "it has no concurrency, so two runs of it can meet"


def _job(name: str, job: Any) -> Iterator[str]:
    if "uses" not in job and "timeout-minutes" not in job:
        yield f"{name} has no timeout-minutes"
    if "secrets." in (words := yaml.safe_dump(job)) or "secrets: inherit" in words:
        yield f"{name} uses a secret: the token of the run and its identity serve"
    for step in job.get("steps", ()):
        given = step.get("with", {})
        yield from (f"{name}: {one} is not pinned by a digest" for one in _IMAGES if not _pinned(given.get(one)))
        if "${{" in step.get("run", ""):
            yield f"{name} puts an expression into a script, which may hold a script itself: pass it by env"
        checks_out = step.get("uses", "").startswith("actions/checkout@")
        if checks_out and given.get("persist-credentials") is not False:
            yield f"{name} leaves the token in the checkout: persist-credentials: false"


def _pinned(image: object) -> bool:
    return image is None or _DIGEST.search(str(image).strip()) is not None
