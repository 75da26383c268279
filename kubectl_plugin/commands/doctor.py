"""`doctor`: checks whether everything is in place for rollouts, with hints where it is not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Final

from controller.api.formats import counted
from controller.api.names import GROUP
from controller.api.objects import JSONObject
from kubectl_plugin.cluster import installation
from kubectl_plugin.cluster.documents import for_each, side_by_side
from kubectl_plugin.cluster.installation import answer_or_reason, review_right, served_versions, server_version
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.flags import Options
from kubectl_plugin.host import COMPLETION, PLUGIN, Host
from kubectl_plugin.render.listings import checks_text
from kubectl_plugin.rollout.doctor_checks import DoctorCheck, Facts, Level, Machine, checkup, problems
from kubectl_plugin.rollout.document import document
from kubectl_plugin.wording import for_cluster

WANTED = (
    *((verb, GROUP, "daemonsets") for verb in ("get", "list", "watch", "patch")),
    ("list", "", "pods"),
    ("list", "", "nodes"),
    ("list", "apps", "controllerrevisions"),
    ("create", "", "pods"),
)
"""Rights that the other commands need: verb, group and resource."""
SHADOW: Final = "kubectl-kruise-ds"
"""This program would hide a plugin `kubectl kruise`."""
KUBECTL_SECONDS: Final = 5.0


async def doctor(invocation: Invocation, _: Options) -> int:
    """Returns 1 if a check fails. Of missing rights, only get of DaemonSets is a failure. Raises Unreachable."""
    terminal = invocation.terminal
    checks = tuple(
        replace(one, hints=tuple(for_cluster(hint, terminal.cluster_flags) for hint in one.hints))
        for one in checkup(await _facts(invocation))
    )
    count = problems(checks)
    if invocation.output is not None:
        terminal.say_document(_document(checks, count), invocation.output)
    else:
        width = terminal.width if terminal.on_screen else None
        terminal.show(checks_text(checks, width=width, only_ascii=terminal.ascii), whole=True)
        if count:
            terminal.say(f"{counted(count, 'problem')} (exit 1)")
    return 1 if count else 0


async def _facts(invocation: Invocation) -> Facts:
    session = invocation.session
    here, rights = await side_by_side(
        installed_programs(invocation.host),
        for_each(WANTED, lambda one: review_right(session, *one, "" if one[2] == "nodes" else session.namespace)),
    )
    server, served, pods, rival, daemons = await side_by_side(
        answer_or_reason(server_version(session)),
        answer_or_reason(served_versions(session)),
        answer_or_reason(installation.controller_pods(session)),
        answer_or_reason(installation.rival(session)),
        answer_or_reason(installation.our_daemonsets(session)),
    )
    ready = not isinstance(pods, NoAnswer) and any(pod.ready for pod in pods)
    find_leader = installation.coming_leader if ready else installation.controller_leader
    leader = await answer_or_reason(find_leader(session))
    return Facts(
        now=invocation.terminal.now(),
        namespace=session.namespace,
        controller_namespace=session.controller_namespace,
        machine=here,
        client=invocation.host.version(),
        server=server,
        served=served,
        leader=leader,
        pods=pods,
        controller=installation.version_of_leader(session, leader, pods),
        rights=rights,
        rival=rival,
        daemons=daemons,
    )


async def installed_programs(host: Host) -> Machine:
    """kubectl, and the plugin's files on the PATH."""
    plugin, completion, shadow = (host.on_path(one) for one in (PLUGIN, COMPLETION, SHADOW))
    return Machine(kubectl=await _kubectl(host), plugin=plugin, completion=completion, shadow=shadow)


async def _kubectl(host: Host) -> str | NoAnswer:
    program = host.on_path("kubectl")
    if not program:
        return NoAnswer("it is not on the PATH")
    try:
        async with asyncio.timeout(KUBECTL_SECONDS):
            _, out, _ = await host.run_program(program, "version", "--client", "--output=json")
        return str(json.loads(out)["clientVersion"]["gitVersion"])
    except (OSError, TimeoutError):
        return NoAnswer(f"{program} does not answer")
    except (ValueError, KeyError, TypeError):
        return NoAnswer(f"{program} does not say")


def _document(checks: tuple[DoctorCheck, ...], count: int) -> JSONObject:
    return document(
        "Checkup",
        problems=count,
        warnings=sum(check.level is Level.WARN for check in checks),
        checks=[
            {
                "level": check.level.value.lower(),
                "about": check.about,
                "message": check.message,
                "hints": [*check.hints],
            }
            for check in checks
        ],
    )
