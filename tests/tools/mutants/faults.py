"""The lists of planted faults as values, and what is wrong with an entry itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[3]
LISTS: Final = Path(__file__).parent / "lists"


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of one file, and the tests that must notice it, separated by blanks."""

    says: str
    file: str
    was: str
    now: str
    tests: str

    @property
    def package(self) -> str:
        """`controller/planner` for what is in that folder, `controller` for what is beside it; `manifests` is one."""
        parts = Path(self.file).parts
        return parts[0] if parts[0] == "manifests" else "/".join(parts[:-1][:2])

    def misfit(self) -> str:
        """Why it cannot be tried on the repository as it is; empty when it can."""
        try:
            self.planted((ROOT / self.file).read_text())
        except (OSError, ValueError) as error:
            return str(error)
        missing = [test for test in self.tests.split() if not _is_there(test)]
        return f"{self.file}: no such tests: {', '.join(missing)}" if missing else ""

    def planted(self, text: str) -> str:
        """`text` of the file with the fault in it. Raises ValueError where the entry does not fit the file."""
        if (count := text.count(self.was)) != 1:
            raise ValueError(f"{self.file}: the text is in it {count} times instead of once: {self.was!r}")
        if self.was == self.now:
            raise ValueError(f"{self.file}: the fault changes nothing: {self.was!r}")
        return text.replace(self.was, self.now)


def _is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    return (ROOT / file).exists() and (not name or f"def {name}(" in (ROOT / file).read_text())


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fault: tuple[Fault, ...]


def faults() -> list[Fault]:
    """All of them, in the order of the lists' names."""
    lists = (msgspec.toml.decode(path.read_bytes(), type=_List) for path in sorted(LISTS.glob("*.toml")))
    return [fault for one in lists for fault in one.fault]
