"""How a command ends: an exit code for programs, and for people one line with hints at what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """For several objects the command ends with the highest code."""

    DONE = 0
    """It was done, or there was nothing to do."""
    FAILED = 1
    """The API or the network failed, or the object does not exist. kubectl has no other code than this."""
    USAGE = 2
    TIMED_OUT = 3
    """The deadline passed while the rollout still moved."""
    STUCK = 4
    """The rollout will not finish by itself."""
    WAITING = 5
    """The rollout waits for a person: it is paused, uses OnDelete, or is held though all nodes were asked for."""
    REFUSED = 6
    """Refused by a check, by the answer at the prompt, or because somebody else changed the object first."""
    DIFFERENT = 7
    """With --exit-code: something differs, or would change."""
    INTERRUPTED = 130
    UNREAD = 141
    """The reader of stdout, such as `head`, closed it before everything was printed."""
    TERMINATED = 143
    """SIGTERM ended it: the code that a shell reports for a process that dies of that signal."""


class CommandError(Exception):
    """A verb raises it to end the command; `running` prints it."""

    def __init__(
        self,
        message: str,
        *,
        hints: tuple[str, ...] = (),
        exit_code: int = ExitCode.FAILED,
        prefix: str = "error: ",
    ) -> None:
        """`message`: the first line, without "error: ". `prefix` is "" for the API server's own words."""
        super().__init__(message)
        self.message, self.hints, self.exit_code, self.prefix = message, hints, exit_code, prefix


class UsageError(CommandError):
    """For a command line that makes no sense, whatever is in the cluster."""

    def __init__(self, message: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints, exit_code=ExitCode.USAGE)


@dataclass(frozen=True)
class NoAnswer:
    """Why a question to the server has no answer."""

    why: str
