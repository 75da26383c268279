"""`pull`: creates an ImagePullJob, and shows its progress until it ends."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext
from typing import Final

import msgspec

from controller.api.containers import canonical
from controller.api.formats import IntOrPercent, counted
from controller.api.image_pull_job import JOB_KIND, ImagePullJob, ImagePullJobView, project, targets
from controller.api.names import API_VERSION
from controller.api.objects import JSON, JSONObject, Key
from controller.api.revision import short_hash
from controller.api.selector import is_label_key, is_label_value, is_subdomain
from controller.kube.requests import IMAGE_PULL_JOBS
from kubectl_plugin.cluster import documents, installation, reads
from kubectl_plugin.cluster.follow import PullFollowing, following_pull, nodes_with_images
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.cluster.writes import warn_if_interrupted
from kubectl_plugin.commands.change_flow import DRY_RUN_SUFFIX
from kubectl_plugin.commands.screens import Picture, TableScreen, table_screen
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.options import DryRun, PullOptions
from kubectl_plugin.render.listings import pull_table
from kubectl_plugin.rollout.snapshot import NodePull, PullProgress, PullStage, failure_lines
from kubectl_plugin.wording import command, printed_name

CHECK_SECONDS: Final = 5.0
"""Seconds without events before checking again whether a controller handles the job."""
GATE: Final = "is its feature gate PreDownloadImageForDaemonSetUpdate on?"


async def pull(invocation: Invocation, options: PullOptions) -> int:
    deadline, terminal = Deadline(invocation, options), invocation.terminal
    body = pull_job(
        options.image,
        namespace=invocation.session.namespace,
        nodes=options.selector,
        parallelism=int_or_percent(options.parallelism, "--parallelism"),
        secrets=options.secrets,
        now=terminal.now(),
    )
    async with deadline.enforced():
        nodes = await nodes_with_images(invocation.session)
    if nodes is None:
        terminal.note("which nodes they are is unknown without the right to list nodes")
    elif not targets(_job_of(body), nodes, None).nodes:
        where = f" with labels {options.selector}" if options.selector else ""
        raise CommandError(f"there is no node{where}: nothing to pull for")
    terminal.ignore_broken_pipe()
    async with deadline.enforced():
        document = await _create_job(invocation, options, body)
    _print(invocation, options, document)
    terminal.flush()
    if options.dry_run is not DryRun.NONE or options.no_wait:
        return ExitCode.DONE
    job = _job_of(document)
    with warn_if_interrupted(terminal, f": {printed_name(job.name, 'imagepulljob')} goes on", _hint_to_end(job)):
        async with deadline.enforced(), following_pull(invocation, job, nodes or ()) as follow:
            return await _PullWatch(invocation, options, job, follow, deadline).run()


def _job_of(document: JSONObject) -> ImagePullJob:
    return project(msgspec.convert(document, ImagePullJobView))


async def _create_job(invocation: Invocation, options: PullOptions, body: JSONObject) -> JSONObject:
    if options.dry_run is DryRun.CLIENT:
        return body
    namespace, name = invocation.session.namespace, reads.meta_of(body).name
    words = f" while ImagePullJob {name} was made: it may have been done"
    way = command("get imagepulljobs", Key(namespace, name), program="kubectl")
    dry_run = options.dry_run is DryRun.SERVER
    with nullcontext() if dry_run else warn_if_interrupted(invocation.terminal, words, way):
        return await documents.create(
            invocation.session, IMAGE_PULL_JOBS, namespace, body, dry_run=dry_run, field_manager=options.field_manager
        )


def _print(invocation: Invocation, options: PullOptions, document: JSONObject) -> None:
    name = printed_name(reads.meta_of(document).name, "imagepulljob")
    if not invocation.answers_a_program((name,), lambda: document):
        invocation.terminal.say(f"{name} created{DRY_RUN_SUFFIX[options.dry_run]}")


class _PullWatch:
    def __init__(
        self,
        invocation: Invocation,
        options: PullOptions,
        job: ImagePullJob,
        follow: PullFollowing,
        deadline: Deadline,
    ) -> None:
        self._invocation, self._options, self._job, self._follow = invocation, options, job, follow
        self._deadline = deadline
        self._silent_until = asyncio.get_running_loop().time() + installation.CONTROLLER_SECONDS

    async def run(self) -> int:
        """Prints nothing if stdout already has the document."""
        if self._invocation.output is not None or self._invocation.terminal.quiet:
            return self._exit_code(await self._until_over(None))
        with table_screen(self._invocation) as screen:
            ended = await self._until_over(screen)
        if not self._invocation.terminal.on_screen:
            self._invocation.terminal.say(ended.counts.words())
        self._invocation.terminal.say(*(f"  {line}" for line in failure_lines(ended.by_node())))
        return self._exit_code(ended)

    async def _until_over(self, screen: TableScreen | None) -> PullProgress:
        """Raises CommandError if the job is deleted (exit code 1), at the deadline (3), or without a controller
        (4)."""
        while True:
            found = self._follow.pull()
            if found is None:
                raise CommandError(f"{printed_name(self._job.name, 'imagepulljob')} was deleted")
            if screen is not None:
                screen.show(self._picture(found), self._follow.interruption or found.refusal)
            if found.over:
                return found
            if self._deadline.seconds_left <= 0:
                so_far = "; ".join(filter(None, (found.counts.words(), found.refusal)))
                goes_on = f"{printed_name(self._job.name, 'imagepulljob')} goes on"
                words = f"timed out after {self._options.timeout}: {so_far}; {goes_on}"
                raise CommandError(words, _hint_to_end(self._job), exit_code=ExitCode.TIMED_OUT)
            await self._give_up_if_unattended(found)
            await self._follow.changed(min(CHECK_SECONDS, max(self._deadline.seconds_left, 0.0)))

    async def _give_up_if_unattended(self, found: PullProgress) -> None:
        if found.job.status is not None or asyncio.get_running_loop().time() < self._silent_until:
            return
        session, now = self._invocation.session, self._invocation.terminal.now()
        why = await installation.why_no_controller(session, now) or f"no controller carries it out; {GATE}"
        hints = (command("doctor"), _hint_to_end(self._job))
        raise CommandError(
            f"nothing happens to {printed_name(self._job.name, 'imagepulljob')}: {why}",
            *hints,
            exit_code=ExitCode.STUCK,
        )

    def _exit_code(self, found: PullProgress) -> int:
        status = found.status
        if not status.failed:
            return ExitCode.DONE
        words = f"{self._options.image} could not be pulled on {counted(status.failed, 'node', of=status.desired)}"
        raise CommandError(words, exit_code=ExitCode.STUCK)

    def _picture(self, found: PullProgress) -> Picture:
        """Rows for nodes that pull or have a reason to show; others are only counted."""
        nodes, only_ascii = found.by_node(), self._invocation.terminal.ascii
        rows = [(node, one) for node, one in nodes.items() if one.why or one.stage is PullStage.PULLING]
        return Picture(
            table=lambda width: pull_table(rows, width=width, only_ascii=only_ascii),
            footer=found.counts.words(),
            rows=tuple((node, _news_of(one)) for node, one in rows),
            others={node: str(one.stage) for node, one in nodes.items()},
            document={},
        )


def _news_of(pull: NodePull) -> tuple[str, str]:
    """Values whose change adds a line to a log; the words after the colon change with each attempt."""
    return pull.stage, pull.why.partition(":")[0]


def _hint_to_end(job: ImagePullJob) -> str:
    return command("delete imagepulljob", job.key, to="end it", program="kubectl")


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
