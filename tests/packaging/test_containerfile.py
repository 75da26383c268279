"""What the Containerfile promises: pinned bases, hashes, no root, no shell. `make test-image` performs its build."""

from __future__ import annotations

import json
import re

import pytest

from tests.tools.image.containerfile import ROOT, Step, stages

BUILD, FINAL = stages((ROOT / "Containerfile").read_text())


def words(word: str) -> list[str]:
    """What follows each `word` in the final stage."""
    return [step.rest for step in FINAL if step.word == word]


@pytest.mark.parametrize("stage", [BUILD, FINAL])
def test_bases_are_pinned_by_digest_for_every_platform(stage: list[Step]) -> None:
    assert re.match(r"\S+:\S+@sha256:[0-9a-f]{64}( AS \w+)?$", stage[0].rest), stage[0].rest


def test_nothing_runs_in_the_final_stage_and_its_commands_need_no_shell() -> None:
    assert words("RUN") == []
    assert words("CMD") == []
    assert [json.loads(entry) for entry in words("ENTRYPOINT")] == [["/opt/kruise-ds/bin/kruise-ds-controller"]]


def test_it_is_nobody_and_by_number_so_that_the_kubelet_can_tell() -> None:
    """The Deployment says `runAsNonRoot` and no user; of a name the kubelet would not know whether it is root."""
    (user,) = words("USER")
    assert [0 < int(number) < 2**31 for number in user.split(":")] == [True, True]


def test_packages_come_by_hash_and_from_no_index_of_ours() -> None:
    installs = [step.rest for step in BUILD if step.word == "RUN" and "pip" in step.rest and " install " in step.rest]
    assert installs
    assert all("--require-hashes" in one or "--no-index" in one for one in installs)
    assert "index-url" not in (ROOT / "requirements-runtime.lock").read_text()


def test_the_runtimes_lock_says_what_the_whole_lock_says() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^(\S+==\S+)", (ROOT / name).read_text(), re.MULTILINE))

    runtime = pins("requirements-runtime.lock")
    assert runtime <= pins("requirements.lock"), "run `make lock`"
    assert not {"pytest", "mypy", "ruff"} & {pin.partition("==")[0] for pin in runtime}
