"""The one question before a change, and who says yes beforehand."""

from __future__ import annotations

from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.terminal import Terminal

HINT = "add --yes if that is what you want"


def consented(terminal: Terminal, what: str, question: str, *, yes: bool, hint: str = HINT) -> bool:
    """Whether it was asked, and agreed to; it is not asked where `yes`, or the environment, says so beforehand.

    Raises CommandError (6) for a no, and where nobody can be asked about `what`.
    """
    if yes or terminal.never_asks:
        return False
    if not terminal.may_ask:
        words = f"{what} would be changed, and there is no terminal to ask"
        raise CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)
    if not terminal.ask(question):
        raise CommandError("nothing was changed", exit_code=ExitCode.REFUSED, prefix="")
    return True
