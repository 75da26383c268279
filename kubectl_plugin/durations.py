"""Lengths of time: as Go writes them (`90s`, `10m`, `1h30m`), and as tables print them (`6m12s`, `12d`)."""

from __future__ import annotations

import re

from kubectl_plugin.failures import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds_of(text: str, flag: str) -> float:
    """`text` in seconds; a plain number is already in seconds. Raises UsageError, which names `flag`."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'invalid {flag} "{text}": use a length of time such as 90s, 10m or 1h30m')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def short_duration(seconds: float) -> str:
    """`seconds` as kubectl prints an age: `9s`, `6m12s`, `18m`, `3h`, `12d`. A second unit follows a small first one
    only."""
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
