"""Times, references, keys."""

from __future__ import annotations

import pytest

from controller.api.meta import Key, OwnerReference, Ref, epoch, rfc3339


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        (None, None),
        ("", None),
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-21T10:12:13Z", 1795255933.0),
        ("2024-02-29T23:59:59Z", 1709251199.0),
        ("2026-11-21T10:12:13.250000Z", 1795255933.25),
        ("2026-11-21T12:12:13+02:00", 1795255933.0),
    ],
)
def test_epoch(stamp: str | None, moment: float | None) -> None:
    assert epoch(stamp) == moment


@pytest.mark.parametrize("stamp", ["yesterday", "2026-11-21T10:12:1xZ", "2026-13-21"])
def test_what_is_no_time_is_refused(stamp: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        epoch(stamp)


def test_times_are_written_as_metav1_time() -> None:
    assert rfc3339(1795255933.9) == "2026-11-21T10:12:13Z"
    assert epoch(rfc3339(1795255933.0)) == 1795255933.0


def test_a_key_reads_as_kubectl_writes_it() -> None:
    assert str(Key("default", "demo")) == "default/demo"
    assert str(Key("", "node-0")) == "node-0"
    assert str(Ref(namespace="default", name="demo", uid="u")) == "default/demo"
    assert str(Ref(namespace="", name="node-0", uid="u")) == "node-0"


@pytest.mark.parametrize(("version", "group"), [("apps.kruise.io/v1alpha1", "apps.kruise.io"), ("v1", ""), ("", "")])
def test_the_group_is_what_precedes_the_version(version: str, group: str) -> None:
    assert OwnerReference(api_version=version).group == group
