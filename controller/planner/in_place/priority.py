"""The order in which the containers of one pod get their new images: by OpenKruise's launch priority.

A container with a priority has the variable KRUISE_CONTAINER_BARRIER, from the key `p_<priority>` of a ConfigMap.
Labels and annotations do not wait: all come with the first batch. So no container joins the batch of another one for
reading the same label: it starts with all of them when its turn comes. OpenKruise keeps a label for the batch of its
reader, which other readers join.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.api.base import JSONObject, fields_of, items_of
from controller.api.wellknown import CONTAINER_BARRIER


def batches_of(containers: Sequence[JSONObject], changed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The names in `changed` in batches, the highest launch priority first. Containers without a priority are in the
    first batch, and so are names of no container."""
    priorities = {str(one.get("name", "")): _priority(one) for one in containers}
    ordered = sorted({priority for priority in priorities.values() if priority is not None}, reverse=True)
    batches = [[name for name in changed if priorities.get(name) == priority] for priority in ordered]
    batches = [batch for batch in batches if batch]
    free = [name for name in changed if priorities.get(name) is None]
    if free:
        batches = [[*free, *batches[0]], *batches[1:]] if batches else [free]
    return tuple(tuple(sorted(batch)) for batch in batches)


def _priority(container: JSONObject) -> int | None:
    for variable in items_of(container.get("env")):
        if variable.get("name") == CONTAINER_BARRIER:
            key = str(fields_of(fields_of(variable.get("valueFrom")).get("configMapKeyRef")).get("key", ""))
            number = key.removeprefix("p_")
            return int(number) if number.removeprefix("-").isdecimal() and len(number) < 12 else None
    return None
