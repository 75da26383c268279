"""How much of chance a run takes: what finds faults every day, and thousands under `make test-deep`."""

from __future__ import annotations

from hypothesis import settings

DEEP = settings.get_current_profile_name() == "deep"


def every_day(examples: int, *, steps: int = 50) -> settings:
    """The size of a property test for every day; the deep profile has its own.

    So many that of the faults planted in what the test is about no fewer were found than by three times as many.
    """
    return settings() if DEEP else settings(max_examples=examples, stateful_step_count=steps)
