"""`running`, imported when a verb is called and not before: it brings asyncio, for which `--help` must not wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from kubectl_plugin.flags import Global, Output

if TYPE_CHECKING:
    from kubectl_plugin.cluster.invocation import Invocation
    from kubectl_plugin.terminal import Terminal


def run(
    flags: Global,
    body: Callable[[Invocation], Awaitable[int]],
    *,
    outputs: Sequence[Output],
    check: Callable[[], None] | None = None,
) -> None:
    """See `running.run`."""
    from kubectl_plugin import running

    running.run(flags, body, outputs=outputs, check=check)


def run_offline(flags: Global, body: Callable[[Terminal], int], *, outputs: Sequence[Output]) -> None:
    """See `running.run_offline`."""
    from kubectl_plugin import running

    running.run_offline(flags, body, outputs=outputs)
