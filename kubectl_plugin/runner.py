"""The table of verbs, and how each runs from its flags to its exit code. A failure prints one line, no traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

import typer

from kubectl_plugin import options as verb_options
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import GlobalFlags, Options, Output, seconds_of
from kubectl_plugin.host import Host
from kubectl_plugin.terminal import Terminal

if TYPE_CHECKING:
    from kubectl_plugin.cluster.session import Invocation


@dataclass(frozen=True)
class Entry:
    name: str
    function: str
    """`module.name` below `commands`; takes the invocation and options, returns the exit code. Imported only to run
    the verb, because `--help` and completion must not wait for an HTTP client."""
    options: type[Options]
    """Its docstring is the help of the verb."""
    _: KW_ONLY
    section: str
    outputs: tuple[Output, ...]
    """Formats accepted after `-o`."""
    offline: str = ""
    """Replaces `function` where no cluster is needed; takes the host, the terminal, `-o` and the options."""
    hidden: bool = False
    event: str = ""
    """Reason of the Event about the object that the verb writes."""

    @property
    def summary(self) -> str:
        line = (self.options.__doc__ or "").partition("\n")[0]
        return line.partition(". ")[0].removesuffix(".")


def imported_function(function: str) -> Callable[..., Any]:
    """The function `module.name` below `commands`."""
    module, _, name = function.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"kubectl_plugin.commands.{module}"), name)
    return found


_DOCUMENTS = (Output.JSON, Output.YAML)
_look = partial(Entry, section="Look", outputs=tuple(Output))
_act = partial(Entry, section="Act", outputs=(*_DOCUMENTS, Output.NAME))
_set_up = partial(Entry, section="Set up", outputs=_DOCUMENTS)

ENTRIES = (
    _look("status", "status.status", verb_options.StatusOptions),
    _look("list", "list.list_", verb_options.ListOptions),
    _look("nodes", "nodes.nodes", verb_options.NodesOptions),
    _look("plan", "plan.plan", verb_options.PlanOptions, outputs=(*_DOCUMENTS, Output.WIDE)),
    _look("history", "history.history", verb_options.HistoryOptions),
    _look("diff", "history.diff", verb_options.DiffOptions, outputs=_DOCUMENTS),
    _act("pause", "steering.pause", verb_options.PauseOptions, event="Paused"),
    _act("resume", "steering.resume", verb_options.ResumeOptions, event="Resumed"),
    _act("set-partition", "steering.set_partition", verb_options.SetPartitionOptions, event="PartitionSet"),
    _act("promote", "steering.promote", verb_options.PromoteOptions, event="Promoted"),
    _act("retry", "steering.retry", verb_options.RetryOptions, event="Retried"),
    _act("rollback", "steering.rollback", verb_options.RollbackOptions, event="RolledBack"),
    _act("undo", "steering.rollback", verb_options.RollbackOptions, hidden=True, event="RolledBack"),
    _act("restart", "steering.restart", verb_options.RestartOptions, event="Restarted"),
    _act("set-image", "steering.set_image", verb_options.SetImageOptions, event="ImageSet"),
    _act("apply", "apply.apply", verb_options.ApplyOptions, event="Applied"),
    _act("pull", "pull.pull", verb_options.PullOptions),
    _act("migrate", "migrate.migrate", verb_options.MigrateOptions, outputs=()),
    _set_up("doctor", "doctor.doctor", verb_options.DoctorOptions),
    _set_up("completion", "", verb_options.CompletionOptions, outputs=(), offline="completion.completion"),
    _set_up("version", "version.version", verb_options.VersionOptions, offline="version.client_version"),
)
SHOWN = tuple(entry for entry in ENTRIES if not entry.hidden)


class Runner:
    def __init__(self, host: Host) -> None:
        self.host = host

    def run(self, flags: GlobalFlags, entry: Entry, options: Options) -> None:
        """Runs a verb and exits with its code. Invalid flags are reported before a kubeconfig is read."""

        def body(terminal: Terminal) -> int:
            options.check()
            if options.offline:
                return int(imported_function(entry.offline)(self.host, terminal, flags.output, options))
            import asyncio  # imported late: `--help` must not wait for it

            async def verb() -> int:
                async with _connected(self.host, flags, terminal, entry, options) as invocation:
                    return int(await imported_function(entry.function)(invocation, options))

            try:
                return self.host.run(verb())
            except asyncio.CancelledError:  # SIGTERM during a write; Ctrl-C raises KeyboardInterrupt
                return ExitCode.TERMINATED

        self.run_guarded(flags, body, outputs=entry.outputs)

    def run_guarded(self, flags: GlobalFlags, body: Callable[[Terminal], int], *, outputs: Sequence[Output]) -> None:
        """Runs `body` and exits with its code. `outputs`: formats accepted after `-o`."""
        terminal = Terminal(flags, self.host)
        try:
            terminal.check_environment()
            _check_output(flags.output, outputs)
            code = body(terminal)
            terminal.flush()
        except CommandError as error:
            code = _print_failure(terminal, error)
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        except BrokenPipeError:  # the reader of stdout, such as `head`, has closed it
            code = ExitCode.UNREAD
        except typer.Exit:
            raise
        except UnicodeEncodeError as error:
            code = _print_failure(terminal, _not_utf8(error))
        except Exception as error:  # a bug of ours is one line for users, too
            code = _print_failure(terminal, _unexpected_error(error))
        terminal.ignore_broken_pipe()
        terminal.flush()
        raise typer.Exit(code)


@asynccontextmanager
async def _connected(
    host: Host, flags: GlobalFlags, terminal: Terminal, entry: Entry, options: Options
) -> AsyncIterator[Invocation]:
    """Raises CommandError for the API errors of the block, and if the login outlasts `--timeout`."""
    import asyncio

    from controller.kube.errors import ApiError, ConfigError
    from kubectl_plugin.cluster.api_errors import explained_error
    from kubectl_plugin.cluster.session import Invocation, access_of, open_session

    began = asyncio.get_running_loop().time()
    request_timeout = seconds_of(flags.request_timeout, "--request-timeout") if flags.request_timeout else None
    session = None
    opening = open_session(
        host,
        access_of(flags),
        namespace=flags.namespace,
        controller_namespace=flags.controller_namespace,
        request_timeout=request_timeout,
        trace=terminal.trace if flags.verbose else None,
        clock=terminal.clock,
        warn=terminal.warn_for_server,
    )
    try:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(options.seconds if options.seconds < inf else None):
                    session = await stack.enter_async_context(opening)
            except TimeoutError as error:
                words = f"timed out after {options.timeout}: the login has not ended"
                raise CommandError(words, exit_code=ExitCode.TIMED_OUT) from error
            yield Invocation(session, terminal, flags.output, host, flags.namespace, began, entry.event)
    except (ApiError, ConfigError) as error:
        raise explained_error(error, session) from error


def _check_output(output: Output | None, known: Sequence[Output]) -> None:
    if output is not None and output not in known:
        can = f"use {', '.join(known)}" if known else "it has none"
        raise UsageError(f'this verb has no output format "{output}": {can}')


def _unexpected_error(error: Exception) -> CommandError:
    words = " ".join(str(error).split()) or "no further words"
    mistake = CommandError(f"{type(error).__name__}: {words}", "this is a bug in kruise-ds; -vv shows the traceback")
    mistake.__cause__ = error
    return mistake


def _not_utf8(error: UnicodeEncodeError) -> CommandError:
    """The word comes from the command line: stdout and stderr escape every character, and the server sends UTF-8."""
    word = next((word for word in sys.argv if word.encode(errors="ignore").decode() != word), str(error.object))
    return UsageError(f"not UTF-8: {word.encode(errors='backslashreplace').decode()}")


def _print_failure(terminal: Terminal, error: CommandError) -> int:
    terminal.ignore_broken_pipe()
    terminal.flush()
    terminal.fail(error)
    if terminal.verbose > 1:
        terminal.trace("".join(traceback.format_exception(error.__cause__ or error)))
    return error.exit_code
