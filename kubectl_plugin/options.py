"""The verbs that only read: the help, arguments and flags of each, for typer and for the verb."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kubectl_plugin import candidates
from kubectl_plugin.flags import ManifestOptions, Name, Names, Options, SelectorOptions, ShowValues

By = Annotated[
    str,
    Option(help="Group nodes by zone, arch, pool or any node label.", autocompletion=candidates.groupings),
]
Watch = Annotated[bool, Option("-w", help="Follow it.")]
Different = Annotated[bool, Option(help="End with 7 if there is a difference.")]


@dataclass(frozen=True, kw_only=True)
class StatusOptions(ManifestOptions, SelectorOptions):
    """Where the rollout is, why it waits, what to do.

    -o wide: whole image names and hashes, lines as long as they are. -w ends by itself; its exit code says how.
    """

    names: Names = ()
    watch: Annotated[bool, Option("-w", help="Wait until it is done, stuck or held.")] = False
    timeout: Annotated[str, Option(help="With -w: give up after, e.g. 15m; 0 for never.")] = "0"
    revision: Annotated[
        int | None,
        Option(
            help="With -w: wait for this one; end with 6 if another one takes over.",
            autocompletion=candidates.revisions,
        ),
    ] = None
    generation: Annotated[
        int | None, Option(help="With -w: wait for this spec; end with 6 if another one takes over.")
    ] = None
    image: Annotated[
        str | None, Option(help="With -w: wait for this image of a container; end with 6 if another one takes over.")
    ] = None
    require_full: Annotated[bool, Option(help="With -w: end with 5 where it is held: only all nodes are enough.")] = (
        False
    )
    fail_fast: Annotated[bool, Option(help="With -w: end with 4 as soon as a pod fails.")] = False
    by: By = "zone"
    logs: Annotated[bool, Option("--logs/--no-logs", help="The last log line of a failing pod.")] = True
    plain: Annotated[bool, Option(help="With -w: lines instead of a live block.")] = False
    exit_code: Annotated[bool, Option(help="End as -w would, but at once.")] = False


@dataclass(frozen=True, kw_only=True)
class ListOptions(SelectorOptions):
    """All Advanced DaemonSets, one line each."""

    phases: Annotated[
        tuple[str, ...],
        Option(
            "--phase", help="Only these phases, such as Stalled; may be repeated.", autocompletion=candidates.phases
        ),
    ] = ()
    watch: Watch = False


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(Options):
    """Revisions with their images, nodes, and what changed."""

    name: Name
    revision: Annotated[int | None, Option(help="All of this revision.", autocompletion=candidates.revisions)] = None
    show_values: ShowValues = False


@dataclass(frozen=True, kw_only=True)
class NodesOptions(Options):
    """One row per node: revision, pod, state, and why."""

    name: Name
    only: Annotated[
        str,
        Option(
            help="States to show, such as failing,next; preparing: pods that a hook holds; all: every eligible node.",
            autocompletion=candidates.states,
        ),
    ] = "all"
    excluded: Annotated[bool, Option(help="Also nodes that must not run the pod, and why.")] = False
    zone: Annotated[str | None, Option(help="Only nodes of this group.")] = None
    by: By = "zone"
    sort: Annotated[
        str, Option(help="update (its order), name, state, restarts or age.", autocompletion=candidates.sorts)
    ] = "update"
    watch: Watch = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(ManifestOptions):
    """What would happen next; what if."""

    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="May be left out with -f.", autocompletion=candidates.names)
    ] = None
    partition: Annotated[str | None, Option(help="What if so many pods were kept old.")] = None
    max_unavailable: Annotated[str | None, Option(help="What if so many nodes could be without a pod.")] = None
    images: Annotated[
        tuple[str, ...], Option("--image", help="What if CONTAINER=IMAGE, or `*=IMAGE`, were set; may be repeated.")
    ] = ()
    waves: Annotated[int, Option(help="How many waves to work out; 0 for all.")] = 10
    exit_code: Different = False


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Options):
    """Difference between two revisions, or between live and a file."""

    name: Name
    revisions: Annotated[
        tuple[int, ...],
        Argument(
            metavar="[REV [REV]]", help="Left out: the former and the live one.", autocompletion=candidates.revisions
        ),
    ] = ()
    file: Annotated[
        str | None,
        Option("--filename", "-f", help="Compare live with a file, or a URL.", autocompletion=candidates.files),
    ] = None
    show_values: ShowValues = False
    exit_code: Different = False


class DoctorOptions(Options):
    """Check CRD, controller, rights and versions."""


class Shell(StrEnum):
    """What `completion` accepts."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "pwsh"
    INSTALL = "install"


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """Completion for `kubectl kruise-ds <TAB>`."""

    shell: Annotated[
        Shell, Argument(help="Show how to set it up in this shell; install: put a file beside the plugin.")
    ]
    folder: Annotated[
        Path | None,
        Option(help="With install: where the file goes; else beside the plugin.", autocompletion=candidates.files),
    ] = None
    offline = True


@dataclass(frozen=True, kw_only=True)
class VersionOptions(Options):
    """Versions of plugin, controller and CRD."""

    client: Annotated[bool, Option(help="Only that of the plugin.")] = False

    @property
    def offline(self) -> bool:
        return self.client
