"""Every verb: its place in the help, its options, and the function that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib import import_module
from typing import Any

from kubectl_plugin import change_options, options
from kubectl_plugin.flags import Options, Output


@dataclass(frozen=True)
class Entry:
    """One verb, and its line in the help."""

    name: str
    function: str
    """`module.name` below `verbs`: a function that takes the invocation and the options and returns the exit code. It
    is imported only when the verb is called, because `--help` and <TAB> must not wait for an HTTP client.
    """
    options: type[Options]
    """Its docstring is the help of the verb."""
    _: KW_ONLY
    section: str
    outputs: tuple[Output, ...]
    """The formats that the verb accepts after `-o`; any other is refused."""
    offline: str = ""
    """Used instead of `function` where the options need no cluster; it takes the host, terminal, `-o` and the
    options."""
    hidden: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of the help."""
        line = (self.options.__doc__ or "").partition("\n")[0]
        return line.partition(". ")[0].removesuffix(".")


def imported_function(function: str) -> Callable[..., Any]:
    """The function that carries out a verb or looks up candidates. `function`: `module.name` below `verbs`."""
    module, _, name = function.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"kubectl_plugin.verbs.{module}"), name)
    return found


_DOCUMENTS = (Output.JSON, Output.YAML)
_look = partial(Entry, section="Look", outputs=tuple(Output))
_act = partial(Entry, section="Act", outputs=(*_DOCUMENTS, Output.NAME))
_set_up = partial(Entry, section="Set up", outputs=_DOCUMENTS)

ENTRIES = (
    _look("status", "status.status", options.StatusOptions),
    _look("list", "list.list_", options.ListOptions),
    _look("nodes", "nodes.nodes", options.NodesOptions),
    _look("plan", "plan.plan", options.PlanOptions, outputs=(*_DOCUMENTS, Output.WIDE)),
    _look("history", "history.history", options.HistoryOptions),
    _look("diff", "diff.diff", options.DiffOptions, outputs=_DOCUMENTS),
    _act("pause", "changes.pause", change_options.PauseOptions),
    _act("resume", "changes.resume", change_options.ResumeOptions),
    _act("set-partition", "partition.set_partition", change_options.SetPartitionOptions),
    _act("promote", "promote.promote", change_options.PromoteOptions),
    _act("rollback", "rollback.rollback", change_options.RollbackOptions),
    _act("undo", "rollback.rollback", change_options.RollbackOptions, hidden=True),
    _act("restart", "changes.restart", change_options.RestartOptions),
    _act("set-image", "changes.set_image", change_options.SetImageOptions),
    _act("apply", "apply.apply", change_options.ApplyOptions),
    _act("pull", "pull.pull", change_options.PullOptions),
    _act("migrate", "migrate.migrate", change_options.MigrateOptions, outputs=()),
    _set_up("doctor", "doctor.doctor", options.DoctorOptions),
    _set_up("completion", "", options.CompletionOptions, outputs=(), offline="completion.completion"),
    _set_up("version", "version.version", options.VersionOptions, offline="version.client_version"),
)
SHOWN = tuple(entry for entry in ENTRIES if not entry.hidden)
