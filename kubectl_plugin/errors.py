"""Exit codes, and the errors that end a command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """A command on several objects exits with the highest code."""

    DONE = 0
    FAILED = 1
    """The API or the network failed, or the object does not exist. kubectl has no other error code."""
    USAGE = 2
    TIMED_OUT = 3
    """The deadline passed while the rollout was still progressing."""
    STUCK = 4
    """The rollout cannot finish without intervention."""
    WAITING = 5
    """The rollout is paused, uses OnDelete, or is held although all nodes were requested."""
    REFUSED = 6
    DIFFERENT = 7
    """With --exit-code: something differs or would change."""
    OVERRULED = 8
    """The server stored another partition, pause or template than was asked for."""
    INTERRUPTED = 130
    UNREAD = 141
    """The reader of stdout, such as `head`, closed it early."""
    TERMINATED = 143
    """Ended by SIGTERM; the code that a shell reports for it."""


class CommandError(Exception):
    """Ends the command; `Runner` prints it."""

    def __init__(
        self, message: str, *hints: str, exit_code: ExitCode = ExitCode.FAILED, prefix: str = "error: "
    ) -> None:
        """`message` has no "error: " prefix. `prefix` is empty for a message of the API server."""
        super().__init__(message)
        self.message, self.hints, self.exit_code, self.prefix = message, hints, exit_code, prefix


class UsageError(CommandError):
    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message, *hints, exit_code=ExitCode.USAGE)


class Refused(CommandError):
    """By a check, at the prompt, or because the object was changed concurrently: exit code 6."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message, *hints, exit_code=ExitCode.REFUSED)


@dataclass(frozen=True)
class NoAnswer:
    """Why a request to the server has no answer."""

    why: str
