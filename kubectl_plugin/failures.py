"""How a command fails: one line for people, hints on the way out, and an exit code for programs."""

from __future__ import annotations


class CommandError(Exception):
    """Raised by a verb, printed by `running`. `exit_code`: see the README."""

    def __init__(
        self, message: str, *, hints: tuple[str, ...] = (), exit_code: int = 1, prefix: str = "error: "
    ) -> None:
        """`message`: the first line, without "error: ". `prefix` is "" for the API server's own words."""
        super().__init__(message)
        self.message, self.hints, self.exit_code, self.prefix = message, hints, exit_code, prefix
