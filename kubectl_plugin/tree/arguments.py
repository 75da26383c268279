"""Arguments of more than one verb. A NAME may also be `ads/x`, `ds/x` or `daemonset.apps.kruise.io/x`."""

from __future__ import annotations

from typing import Annotated

import typer

from kubectl_plugin.candidates import names as complete_names

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Of the DaemonSet.", autocompletion=complete_names, show_default=False)
]
OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Or -l.", autocompletion=complete_names, show_default=False),
]
OptionalNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Of DaemonSets.", autocompletion=complete_names, show_default=False),
]

__all__ = ["Name", "OptionalName", "OptionalNames", "complete_names"]
