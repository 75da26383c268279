"""How a command ends: the exit code for programs, and one line for people with hints on the way out."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Of several objects the highest counts."""

    DONE = 0
    """Or there was nothing to do."""
    FAILED = 1
    """The API or the network, or there is no such object: kubectl's only code."""
    USAGE = 2
    TIMED_OUT = 3
    """It still moves."""
    STUCK = 4
    """It will not finish by itself."""
    WAITING = 5
    """For a person: paused, OnDelete, or held though all of it was asked for."""
    REFUSED = 6
    """By a check, at the prompt, or because somebody else was quicker."""
    DIFFERENT = 7
    """With --exit-code: something differs, or would change."""
    INTERRUPTED = 130
    UNREAD = 141
    """Whoever reads the result went away before all was said, such as `head`."""
    TERMINATED = 143
    """By SIGTERM: as a shell tells it of those that die of it."""


class CommandError(Exception):
    """Raised by a verb, printed by `running`."""

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
    """For a command line that nobody could mean."""

    def __init__(self, message: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints, exit_code=ExitCode.USAGE)
