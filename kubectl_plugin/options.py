"""What each verb may be asked: its arguments and flags, once for typer and for the verb."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kubectl_plugin import candidates
from kubectl_plugin.failures import UsageError
from kubectl_plugin.flags import MANAGER, DryRun, DryRunFlag, FieldManager, Many

Name = Annotated[
    str, Argument(metavar="NAME", help="Of the DaemonSet.", autocompletion=candidates.names, show_default=False)
]
Names = Annotated[
    tuple[str, ...],
    Argument(metavar="[NAME]...", help="Of DaemonSets.", autocompletion=candidates.names, show_default=False),
]
By = Annotated[
    str,
    Option("--by", help="Group nodes by zone, arch, pool or any node label.", autocompletion=candidates.groupings),
]
HoldAt = Annotated[str | None, Option("--hold-at", help="Set the partition in the same write: no node starts early.")]
LiftPause = Annotated[bool, Option("--lift-pause", help="Where nobody is asked: also a pause that is not your own.")]
Watch = Annotated[bool, Option("--watch", "-w", help="Follow it.")]
ShowValues = Annotated[bool, Option("--show-values", help="Show the values of variables that look like secrets.")]
Different = Annotated[bool, Option("--exit-code", help="End with 7 if there is a difference.")]


@dataclass(frozen=True, kw_only=True)
class Selected(Many):
    """Which objects an acting verb is for, where its arguments do not say."""

    everything: Annotated[bool, Option("--all", help="All of the namespace.")] = False

    @property
    def by_selection(self) -> bool:
        """Whether no name is needed."""
        return bool(self.everything or self.selector or self.all_namespaces)

    def with_names(self, names: tuple[str, ...]) -> Chosen:
        """The same, and those of its arguments that are names."""
        return Chosen(
            names=names, selector=self.selector, all_namespaces=self.all_namespaces, everything=self.everything
        )


@dataclass(frozen=True, kw_only=True)
class Chosen(Selected):
    """Which objects an acting verb is for."""

    names: Names = ()

    def check(self) -> None:
        """Raises CommandError (2) for what is wrong whatever there is in the cluster."""
        if self.everything and (self.names or self.selector):
            raise UsageError("give names, -l or --all, not two of them")
        if not (self.names or self.by_selection):
            raise UsageError("which one? give a name, -l LABELS or --all")


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """Which files are read."""

    files: Annotated[
        tuple[Path, ...],
        Option(
            "--filename",
            "-f",
            help="Manifest, folder of manifests, or - for standard input; may be repeated.",
            autocompletion=candidates.files,
        ),
    ] = ()
    recursive: Annotated[bool, Option("--recursive", "-R", help="Folders below those of -f too.")] = False
    kustomize: Annotated[
        Path | None,
        Option("--kustomize", "-k", help="Folder with a kustomization.", autocompletion=candidates.files),
    ] = None

    @property
    def given(self) -> bool:
        return bool(self.files) or self.kustomize is not None


@dataclass(frozen=True, kw_only=True)
class StatusOptions(Manifests, Many):
    names: Names = ()
    watch: Annotated[bool, Option("--watch", "-w", help="Wait until it is done, stuck or held.")] = False
    timeout: Annotated[str, Option("--timeout", help="With -w: give up after, e.g. 15m; 0 for never.")] = "0"
    revision: Annotated[
        int | None,
        Option(
            "--revision",
            help="With -w: wait for this one; end with 6 if another one takes over.",
            autocompletion=candidates.revisions,
        ),
    ] = None
    generation: Annotated[
        int | None, Option("--generation", help="With -w: wait for this spec; end with 6 if another one takes over.")
    ] = None
    image: Annotated[
        str | None,
        Option("--image", help="With -w: wait for this image of a container; end with 6 if another one takes over."),
    ] = None
    require_full: Annotated[
        bool, Option("--require-full", help="With -w: end with 5 where it is held: only all nodes are enough.")
    ] = False
    fail_fast: Annotated[bool, Option("--fail-fast", help="With -w: end with 4 as soon as a pod fails.")] = False
    by: By = "zone"
    logs: Annotated[bool, Option("--logs/--no-logs", help="The last log line of a failing pod.")] = True
    plain: Annotated[bool, Option("--plain", help="With -w: lines instead of a live block.")] = False
    exit_code: Annotated[bool, Option("--exit-code", help="End as -w would, but at once.")] = False


@dataclass(frozen=True, kw_only=True)
class ListOptions(Many):
    phases: Annotated[
        tuple[str, ...],
        Option(
            "--phase", help="Only these phases, such as Stalled; may be repeated.", autocompletion=candidates.phases
        ),
    ] = ()
    watch: Watch = False


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    name: Name
    revision: Annotated[
        int | None, Option("--revision", help="All of this revision.", autocompletion=candidates.revisions)
    ] = None
    show_values: ShowValues = False


@dataclass(frozen=True, kw_only=True)
class NodesOptions:
    name: Name
    only: Annotated[
        str,
        Option(
            "--only",
            help="States to show, such as failing,next; preparing: pods that a hook holds; all: every eligible node.",
            autocompletion=candidates.states,
        ),
    ] = "all"
    excluded: Annotated[bool, Option("--excluded", help="Also nodes that must not run the pod, and why.")] = False
    zone: Annotated[str | None, Option("--zone", help="Only nodes of this group.")] = None
    by: By = "zone"
    sort: Annotated[
        str,
        Option("--sort", help="update (its order), name, state, restarts or age.", autocompletion=candidates.sorts),
    ] = "update"
    watch: Watch = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Manifests):
    name: Annotated[
        str | None,
        Argument(metavar="[NAME]", help="May be left out with -f.", autocompletion=candidates.names),
    ] = None
    partition: Annotated[str | None, Option("--partition", help="What if so many pods were kept old.")] = None
    max_unavailable: Annotated[
        str | None, Option("--max-unavailable", help="What if so many nodes could be without a pod.")
    ] = None
    images: Annotated[
        tuple[str, ...], Option("--image", help="What if CONTAINER=IMAGE, or `*=IMAGE`, were set; may be repeated.")
    ] = ()
    waves: Annotated[int, Option("--waves", help="How many waves to work out; 0 for all.")] = 10
    exit_code: Different = False


@dataclass(frozen=True, kw_only=True)
class DiffOptions:
    name: Name
    revisions: Annotated[
        tuple[int, ...],
        Argument(
            metavar="[REV [REV]]", help="Left out: the former and the live one.", autocompletion=candidates.revisions
        ),
    ] = ()
    file: Annotated[
        Path | None,
        Option("--filename", "-f", help="Compare live with a file.", autocompletion=candidates.files),
    ] = None
    show_values: ShowValues = False
    exit_code: Different = False


@dataclass(frozen=True, kw_only=True)
class PromoteOptions:
    name: Name
    full: Annotated[bool, Option("--full", help="All nodes: partition 0.")] = False
    to: Annotated[str | None, Option("--to", help="To this partition instead of the next step.")] = None
    force: Annotated[bool, Option("--force", help="Even if the step is not finished.")] = False
    soak: Annotated[str, Option("--soak", help="Quiet time since the last update, such as 10m.")] = "0s"


@dataclass(frozen=True, kw_only=True)
class MigrateOptions(Chosen):
    to_native: Annotated[
        bool, Option("--to-native", help="The other way: an Advanced DaemonSet becomes a native one.")
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Change nothing: tell what would happen.")] = False
    print_: Annotated[bool, Option("--print", help="Only print the new manifest, for your repository.")] = False
    sync_stopped: Annotated[
        bool, Option("--sync-stopped", help="Whoever manages it (Argo CD, Flux, an operator) is stopped meanwhile.")
    ] = False
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False


@dataclass(frozen=True, kw_only=True)
class RollbackOptions(Chosen):
    to_revision: Annotated[
        int | None,
        Option(
            "--to-revision", help="Back to this one; else to the one before.", autocompletion=candidates.revisions
        ),
    ] = None
    keep_partition: Annotated[bool, Option("--keep-partition", help="Do not set the partition to 0.")] = False
    keep_paused: Annotated[bool, Option("--keep-paused", help="Do not lift the pause.")] = False
    lift_pause: LiftPause = False
    drop_selector: Annotated[
        bool, Option("--drop-selector", help="Lift rollingUpdate.selector too, where it would keep nodes bad.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class SetPartitionOptions(Selected):
    words: Annotated[
        tuple[str, ...],
        Argument(metavar="[NAME] [VALUE]", help="Pods kept old: 8, or 30%.", autocompletion=candidates.names),
    ] = ()
    """Names, and without `update` the value as the last one."""
    update: Annotated[str | None, Option("--update", help="Instead of VALUE: nodes to update, such as 1 or 30%.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class SetImageOptions(Selected):
    words: Annotated[
        tuple[str, ...],
        Argument(
            metavar="[NAME] CONTAINER=IMAGE...", help="`*=IMAGE` for all containers.", autocompletion=candidates.names
        ),
    ] = ()
    """Names, and behind them CONTAINER=IMAGE: no name has an equals sign."""
    hold_at: HoldAt = None


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(Manifests):
    hold_at: HoldAt = None
    lift_pause: LiftPause = False

    def check(self) -> None:
        """Raises CommandError (2)."""
        if not self.given:
            raise UsageError("which manifest? use apply -f FILE, or -k FOLDER")


@dataclass(frozen=True, kw_only=True)
class PullOptions:
    image: Annotated[str, Argument(metavar="IMAGE", help="Such as registry.example.com/agent:v2.")]
    selector: Annotated[
        str | None, Option("--selector", "-l", help="Nodes with these labels; else all.", show_default=False)
    ] = None
    parallelism: Annotated[str, Option("--parallelism", help="Nodes at a time: 3, or 30%.")] = "10%"
    secrets: Annotated[
        tuple[str, ...],
        Option("--pull-secret", help="Secret for the registry; may be repeated.", show_default=False),
    ] = ()
    no_wait: Annotated[bool, Option("--no-wait", help="Make the job, and leave it.")] = False
    timeout: Annotated[str, Option("--timeout", help="Stop watching after, e.g. 15m; the job goes on.")] = "0"
    dry_run: DryRunFlag = DryRun.NONE
    field_manager: FieldManager = MANAGER
