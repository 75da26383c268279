"""The order in which the containers of a pod get their new images: by the launch priority of OpenKruise.

A container with a priority has the environment variable KRUISE_CONTAINER_BARRIER, from the key `p_<priority>` of a
ConfigMap. Unlike OpenKruise, we write all labels and annotations with the first batch. So a container that reads a
changed label stays in its own batch, and sees all of them when it restarts. OpenKruise writes a label with the batch
of the container that reads it, and puts all readers of that label into one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.api.base import JSONObject, fields_of, items_of
from controller.api.wellknown import CONTAINER_BARRIER


def batches_of(containers: Sequence[JSONObject], changed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The containers in `changed`, in batches, highest launch priority first. Containers without a priority are in
    the first batch, and so are unknown names."""
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
