"""`python -m tests.tools.bench.in_pod FOLDER FILE …`: the controller with the options …, as in a pod whose service
account is in FOLDER; a kubeconfig would take 37 MiB and 0.3 s, which no pod needs. FILE tells how long each key has
waited for each of its passes: a line of JSON with the moment, the key and the seconds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from controller import __main__ as controller
from controller.kube import config
from controller.runtime.workqueue import WorkItem, WorkQueue


def longest(lines: Iterable[str], since: float, *, but: Collection[str]) -> tuple[float, int]:
    """Of all keys `but` these: the longest wait since a moment, in seconds, and how many there were."""
    found = [(key, wait) for moment, key, wait in map(json.loads, lines) if moment >= since]
    waits = [wait for key, wait in found if key not in but]
    return max(waits, default=0.0), len(waits)


def main(folder: str, waits: str, options: Sequence[str]) -> None:
    config.in_cluster.__defaults__ = (Path(folder),)
    get = WorkQueue[Any].get
    with open(waits, "w") as file:

        async def noted(queue: WorkQueue[Any]) -> WorkItem[Any]:
            item = await get(queue)
            print(json.dumps((time.time(), str(item.key), item.queued_seconds)), file=file)
            return item

        WorkQueue.get = noted  # type: ignore[assignment, method-assign]
        sys.argv[1:] = options
        controller.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
