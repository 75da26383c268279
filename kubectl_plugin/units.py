"""Durations, counts or percentages, the API server's time, and versions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

from controller.api import formats
from controller.api.formats import IntOrPercent
from kubectl_plugin.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LARGEST = 2**31 - 1
"""The API server stores 32-bit integers."""
_COUNT = re.compile(r"[0-9]{1,10}", re.ASCII)
UNKNOWN: Final = "unknown"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


def seconds_of(text: str, flag: str) -> float:
    """The duration in seconds; a plain number is seconds. Raises UsageError, which names `flag`."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'invalid {flag} "{text}": use a length of time such as 90s, 10m or 1h30m')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def short_duration(seconds: float) -> str:
    """The duration as kubectl prints ages, such as `6m12s`, `18m` or `12d`; only a small first unit has a second
    one."""
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def int_or_percent(text: str, what: str) -> IntOrPercent:
    """`16` as a number, `30%` (at most 100%) as text. Raises UsageError, which names the field `what`."""
    wanted = text.strip()
    if _COUNT.fullmatch(wanted) and int(wanted) <= _LARGEST:
        return int(wanted)
    if wanted.endswith("%") and formats.is_well_formed(wanted) and int(wanted[:-1]) <= 100:
        return f"{int(wanted[:-1])}%"
    raise UsageError(f'invalid {what} "{text}": use a number (0 or more) or a percentage from 0% to 100%')


class ServerClock:
    """The local clock, read once, corrected by the `Date` header of the server's responses where they disagree."""

    def __init__(self, ticks: Callable[[], float], at_first: float) -> None:
        """`ticks`: a monotonic clock in seconds. `at_first`: seconds since 1970 by the local clock."""
        self._ticks, self._epoch = ticks, at_first - ticks()
        self._least, self._most = -math.inf, math.inf

    def local(self) -> float:
        """Seconds since 1970 by the local clock."""
        return self._epoch + self._ticks()

    def now(self) -> float:
        """Seconds since 1970 by the server's clock."""
        return self.local() + min(max(0.0, self._least), self._most)

    def learn(self, date: str, asked: float) -> None:
        """Learns from a response that has just come: its `Date` header, and `local()` when its request was sent."""
        try:
            server = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        least, most = server - self.local(), server + 1.0 - asked
        if max(least, self._least) > min(most, self._most):  # the server's clock was set, or this machine slept
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)


def own_version() -> str:
    """The plugin's version; "unknown" when it runs without being installed."""
    from importlib import metadata

    try:
        return metadata.version("kruise-ds")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def minor_of(version: str) -> tuple[int, int] | None:
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else None


def too_far_apart(one: str, other: str) -> bool:
    """Whether the versions differ by more than one minor version; False if either is unknown."""
    first, second = minor_of(one), minor_of(other)
    if first is None or second is None:
        return False
    return first[0] != second[0] or abs(first[1] - second[1]) > 1
