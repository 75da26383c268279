"""The planted faults of `faults.toml` as values, and what is wrong with an entry itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[3]
LIST: Final = Path(__file__).with_name("faults.toml")


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of one file, and the test files of which one must fail, separated by blanks."""

    says: str
    file: str
    was: str
    now: str
    tests: str

    def misfit(self) -> str:
        """Why it cannot be tried on the repository as it is; empty when it can."""
        try:
            self.planted((ROOT / self.file).read_text())
        except (OSError, ValueError) as error:
            return str(error)
        missing = [test for test in self.tests.split() if not (ROOT / test).exists()]
        return f"{self.file}: no such tests: {', '.join(missing)}" if missing else ""

    def planted(self, text: str) -> str:
        """`text` of the file with the fault in it. Raises ValueError where the entry does not fit the file."""
        if (count := text.count(self.was)) != 1:
            raise ValueError(f"{self.file}: the text is in it {count} times instead of once: {self.was!r}")
        if self.was == self.now:
            raise ValueError(f"{self.file}: the fault changes nothing: {self.was!r}")
        return text.replace(self.was, self.now)


def faults() -> tuple[Fault, ...]:
    """All of them, in the order of the list."""
    return msgspec.toml.decode(LIST.read_bytes(), type=dict[str, tuple[Fault, ...]])["fault"]
