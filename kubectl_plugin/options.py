"""The help, arguments and flags of each verb, for typer and for the verb. Apart from the verbs, because `--help` and
<TAB> must not wait for what those import."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kubectl_plugin import flags
from kubectl_plugin.errors import UsageError
from kubectl_plugin.flags import ManifestOptions, Name, Names, Options, SelectorOptions, ShowValues
from kubectl_plugin.wording import CLIENT

By = Annotated[str, Option(help="Group nodes by zone, arch, pool or any node label.", autocompletion=flags.groupings)]
Watch = Annotated[bool, Option("-w", help="Watch for changes.")]
Different = Annotated[bool, Option(help="Exit with 7 if there is a difference.")]


@dataclass(frozen=True, kw_only=True)
class StatusOptions(ManifestOptions, SelectorOptions):
    """Where the rollout is, why it waits, what to do.

    -o wide: full image names and hashes, lines are not cut. -w ends by itself; its exit code is the result.
    """

    names: Names = ()
    watch: Annotated[bool, Option("-w", help="Wait until it is done, stuck or held.")] = False
    timeout: Annotated[str, Option(help="With -w: timeout, such as 15m; 0 for none.")] = "0"
    revision: Annotated[
        int | None,
        Option(
            help="With -w: wait for this revision; exit with 6 if another one takes over.",
            autocompletion=flags.revisions,
        ),
    ] = None
    generation: Annotated[
        int | None, Option(help="With -w: wait for this generation; exit with 6 if another one takes over.")
    ] = None
    image: Annotated[
        str | None, Option(help="With -w: wait for this image of a container; exit with 6 if another one takes over.")
    ] = None
    require_full: Annotated[bool, Option(help="With -w: exit with 5 if it is held before all nodes are updated.")] = (
        False
    )
    fail_fast: Annotated[bool, Option(help="With -w: exit with 4 as soon as a pod fails.")] = False
    by: By = "zone"
    logs: Annotated[bool, Option("--logs/--no-logs", help="Show the last log line of failing pods.")] = True
    plain: Annotated[bool, Option(help="With -w: print lines instead of a live block.")] = False
    exit_code: Annotated[bool, Option(help="Exit with the code of -w, at once.")] = False

    def check(self) -> None:
        super().check()
        if self.given and (self.names or self.selector or self.all_namespaces):
            raise UsageError("give names, -l and -A, or -f and -k, not both")
        self.refuse_both(self.names)
        for flag, is_given in (("--timeout", self.seconds < inf), ("--plain", self.plain)):
            if is_given and not self.watch:
                raise UsageError(f"{flag} is for -w: without it nothing is waited for")
        awaited = {
            "--revision": self.revision is not None,
            "--generation": self.generation is not None,
            "--image": self.image is not None,
            "--require-full": self.require_full,
            "--fail-fast": self.fail_fast,
        }
        for flag in (flag for flag, is_given in awaited.items() if is_given and not (self.watch or self.exit_code)):
            raise UsageError(f"{flag} is for -w or --exit-code")


@dataclass(frozen=True, kw_only=True)
class ListOptions(SelectorOptions):
    """All Advanced DaemonSets, one line each."""

    phases: Annotated[
        tuple[str, ...],
        Option("--phase", help="Only these phases, such as Stalled; may be repeated.", autocompletion=flags.phases),
    ] = ()
    watch: Watch = False


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(Options):
    """Revisions with their images, nodes, and what changed."""

    name: Name
    revision: Annotated[int | None, Option(help="Show this revision in full.", autocompletion=flags.revisions)] = None
    show_values: ShowValues = False


@dataclass(frozen=True, kw_only=True)
class NodesOptions(Options):
    """One row per node: revision, pod, state, and why."""

    name: Name
    only: Annotated[
        str,
        Option(
            help="States to show, such as failing,next; preparing: pods that a hook holds; all: every eligible node.",
            autocompletion=flags.states,
        ),
    ] = "all"
    excluded: Annotated[bool, Option(help="Also show nodes that must not run the pod, with the reason.")] = False
    zone: Annotated[str | None, Option(help="Only nodes of this group.")] = None
    by: By = "zone"
    by_domain: Annotated[bool, Option(help="One row per failure domain (rollingUpdate.topology) instead.")] = False
    sort: Annotated[
        str, Option(help="update (its order), name, state, restarts or age.", autocompletion=flags.sorts)
    ] = "update"
    watch: Watch = False

    def check(self) -> None:
        super().check()
        plain = (self.only, self.excluded, self.zone, self.by, self.sort) == ("all", False, None, "zone", "update")
        if self.by_domain and not plain:
            raise UsageError(
                "--by-domain has no row for a node: leave out --only, --excluded, --zone, --by and --sort"
            )


@dataclass(frozen=True, kw_only=True)
class PlanOptions(ManifestOptions):
    """What a rollout would do next, also with other settings."""

    name: Annotated[
        str | None,
        Argument(metavar="[NAME]", help="Name of the DaemonSet; optional with -f.", autocompletion=flags.names),
    ] = None
    partition: Annotated[str | None, Option(help="Try this partition: the number of pods kept old.")] = None
    max_unavailable: Annotated[str | None, Option(help="Try this maxUnavailable.")] = None
    images: Annotated[
        tuple[str, ...], Option("--image", help="Try CONTAINER=IMAGE, or `*=IMAGE`; may be repeated.")
    ] = ()
    waves: Annotated[int, Option(help="Number of waves to compute, at most 200; 0 for so many.")] = 10
    exit_code: Different = False

    def check(self) -> None:
        super().check()
        if self.waves < 0:
            raise UsageError(f"invalid --waves {self.waves}: use a number, or 0 for the most")
        if self.name is None and not self.given:
            raise UsageError("which one? give a name, or -f with its manifest")


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Options):
    """Difference between two revisions, or between live and a file."""

    name: Name
    revisions: Annotated[
        tuple[int, ...],
        Argument(
            metavar="[REV [REV]]",
            help="By default the previous and the live revision.",
            autocompletion=flags.revisions,
        ),
    ] = ()
    file: Annotated[
        str | None, Option("--filename", "-f", help="Compare live with a file, or a URL.", autocompletion=flags.files)
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
        Option(help="With install: where the file goes; else beside the plugin.", autocompletion=flags.files),
    ] = None
    offline = True


@dataclass(frozen=True, kw_only=True)
class VersionOptions(Options):
    """Versions of plugin, controller and CRD."""

    client: Annotated[bool, Option(help="Only the version of the plugin.")] = False

    @property
    def offline(self) -> bool:
        return self.client


HoldAt = Annotated[str | None, Option(help="Set this partition too, so that no node is updated early.")]
LiftPause = Annotated[bool, Option(help="Without a prompt: also lift a pause set by another user.")]


class DryRun(StrEnum):
    """What `--dry-run` accepts: nothing is written; `server` also asks the API server whether it would accept it."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


DryRunFlag = Annotated[DryRun, Option(help="Change nothing; `server` sends a dry run, and exits as the write would.")]
FieldManager = Annotated[str, Option(help="Field manager for the write.")]
KEPT_MANAGER = "kruise-ds-steps"
"""The manager of annotations that have to outlast the next sync. Flux takes away what is not in Git and was set by a
manager whose name begins with `kubectl`."""
KUBECTL = "kubectl"
"""The field manager of `kubectl apply --server-side`. As both use it, either removes a field that is no longer in the
manifest."""


@dataclass(frozen=True)
class ActingOptions(Options):
    """Flags of every verb that changes something."""

    dry_run: DryRunFlag = DryRun.NONE
    yes: Annotated[bool, Option("-y", help="Do not ask for confirmation.")] = False
    reason: Annotated[
        str | None, Option(help="Reason; recorded with the last action, and as the change cause of a new template.")
    ] = None
    field_manager: FieldManager = CLIENT
    print_patch: Annotated[
        bool, Option(help="Only print an equivalent kubectl command, without resourceVersion.")
    ] = False


@dataclass(frozen=True)
class WaitingOptions(ActingOptions):
    """Flags of every verb whose change takes a while to carry out."""

    wait: Annotated[bool, Option(help="Wait as status -w does; exit with 6 if another change takes over.")] = False
    timeout: Annotated[str, Option(help="With --wait: timeout, such as 15m, counted from the last answer.")] = "0"

    def check(self) -> None:
        super().check()
        if not self.wait and self.seconds < inf:
            raise UsageError("--timeout goes with --wait: without it nothing is waited for")
        if self.wait and (self.dry_run is not DryRun.NONE or self.print_patch):
            raise UsageError("--wait waits for what --dry-run and --print-patch do not do")


@dataclass(frozen=True, kw_only=True)
class SelectedOptions(SelectorOptions):
    """Flags that choose the objects which a verb is to change."""

    everything: Annotated[bool, Option("--all", help="All in the namespace.")] = False

    @property
    def by_selection(self) -> bool:
        """Whether flags choose the objects, so that no name is needed."""
        return bool(self.everything or (self.selector or "").strip() or self.all_namespaces)

    def check_with(self, names: tuple[str, ...]) -> None:
        """Raises UsageError unless the flags and `names` choose objects in exactly one way."""
        if self.everything and (names or self.selector):
            raise UsageError("give names, -l or --all, not two of them")
        self.refuse_both(names)
        if not (names or self.by_selection):
            raise UsageError("which one? give a name, -l LABELS or --all")


@dataclass(frozen=True, kw_only=True)
class NamedOrSelectedOptions(SelectedOptions):
    """DaemonSets are chosen by labels, with --all, or by names. Every argument is a name."""

    names: Names = ()

    def check(self) -> None:
        super().check()
        self.check_with(self.names)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(SelectedOptions, ActingOptions):
    """The flags of every verb that changes DaemonSets: which of them, and how."""


@dataclass(frozen=True, kw_only=True)
class PauseOptions(NamedOrSelectedOptions, ChangeOptions):
    """Stop updating more nodes. Updates under way finish; lost pods are replaced, and new nodes get a pod."""


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(NamedOrSelectedOptions, ChangeOptions, WaitingOptions):
    """Resume a paused rollout."""


@dataclass(frozen=True, kw_only=True)
class RestartOptions(NamedOrSelectedOptions, ChangeOptions, WaitingOptions):
    """Replace all pods, within the limits of the update."""


@dataclass(frozen=True, kw_only=True)
class PromoteOptions(WaitingOptions):
    """Approve the step at which a rollout waits, so that the next one begins.

    A step that needs no approval ends by itself. With --wait it waits until the rollout is over, or has to be
    approved again.
    """

    name: Name
    full: Annotated[bool, Option(help="Update all nodes, without further steps and partition.")] = False
    field_manager: FieldManager = KEPT_MANAGER


@dataclass(frozen=True, kw_only=True)
class RetryOptions(WaitingOptions):
    """Try the revision of an aborted rollout again, from its first step."""

    name: Name
    field_manager: FieldManager = KEPT_MANAGER


@dataclass(frozen=True, kw_only=True)
class MigrateOptions(NamedOrSelectedOptions):
    """Make a native DaemonSet an Advanced one, or with --to-native the other way round. No pod is restarted.

    If it is interrupted, run it again to continue, or in the other direction to undo it.
    """

    names: Annotated[
        tuple[str, ...], Argument(metavar="[NAME]...", help="Names of DaemonSets.", autocompletion=flags.natives)
    ] = ()
    to_native: Annotated[bool, Option(help="The other way: an Advanced DaemonSet becomes a native one.")] = False
    dry_run: Annotated[bool, Option(help="Change nothing: print what would happen.")] = False
    print_: Annotated[bool, Option("--print", help="Only print the new manifest, for your repository.")] = False
    sync_stopped: Annotated[
        bool, Option(help="Confirm that the tool that manages it (Argo CD, Flux, an operator) is stopped.")
    ] = False
    yes: Annotated[bool, Option("-y", help="Do not ask for confirmation.")] = False


@dataclass(frozen=True, kw_only=True)
class RollbackOptions(NamedOrSelectedOptions, ChangeOptions, WaitingOptions):
    """Roll back to an earlier revision, on all nodes that left it (alias: undo)."""

    to_revision: Annotated[
        int | None,
        Option(help="Revision to roll back to; by default the last complete one.", autocompletion=flags.revisions),
    ] = None
    show_values: ShowValues = False
    keep_partition: Annotated[bool, Option(help="Do not set the partition to 0.")] = False
    keep_paused: Annotated[bool, Option(help="Do not lift the pause.")] = False
    lift_pause: LiftPause = False
    drop_selector: Annotated[
        bool, Option(help="Also remove rollingUpdate.selector, if it would keep nodes from going back.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class SetPartitionOptions(ChangeOptions, WaitingOptions):
    """Keep VALUE pods old, or update a number of nodes."""

    words: Annotated[
        tuple[str, ...],
        Argument(metavar="[NAME] [VALUE]", help="Pods kept old: 8, or 30%.", autocompletion=flags.names),
    ] = ()
    """The names, and as the last one the value, unless `update` is given."""
    update: Annotated[str | None, Option(help="Instead of VALUE: nodes to update, such as 1 or 30%.")] = None


@dataclass(frozen=True, kw_only=True)
class SetImageOptions(ChangeOptions, WaitingOptions):
    """Change images."""

    words: Annotated[
        tuple[str, ...],
        Argument(
            metavar="[NAME] CONTAINER=IMAGE...", help="`*=IMAGE` for all containers.", autocompletion=flags.containers
        ),
    ] = ()
    """The names, then CONTAINER=IMAGE; a name cannot have an equals sign."""
    hold_at: HoldAt = None


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(ManifestOptions, WaitingOptions):
    """Apply a manifest, as kubectl does, and a partition."""

    hold_at: HoldAt = None
    lift_pause: LiftPause = False
    show_values: ShowValues = False
    force_conflicts: Annotated[bool, Option(help="Take over fields that other managers have.")] = False
    field_manager: FieldManager = KUBECTL

    def check(self) -> None:
        super().check()
        if not self.given:
            raise UsageError("which manifest? use apply -f FILE, or -k FOLDER")


@dataclass(frozen=True, kw_only=True)
class PullOptions(Options):
    """Have nodes pull an image before a pod needs it. Makes an ImagePullJob and shows how far it is."""

    image: Annotated[str, Argument(metavar="IMAGE", help="Such as registry.example.com/agent:v2.")]
    selector: Annotated[str | None, Option("-l", help="Nodes with these labels; else all.")] = None
    parallelism: Annotated[str, Option(help="Nodes at a time: 3, or 30%.")] = "10%"
    secrets: Annotated[
        tuple[str, ...], Option("--pull-secret", help="Secret for the registry; may be repeated.")
    ] = ()
    no_wait: Annotated[bool, Option(help="Create the job without waiting for it.")] = False
    timeout: Annotated[str, Option(help="Stop watching after this time, such as 15m; the job continues.")] = "0"
    dry_run: DryRunFlag = DryRun.NONE
    field_manager: FieldManager = CLIENT

    def check(self) -> None:
        super().check()
        if self.selector is not None and not self.selector.strip():
            raise UsageError("which nodes? give -l LABELS, or leave -l out for all nodes")
