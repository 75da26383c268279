"""The image: what the Containerfile promises (`make test-image` builds it), and one made without an engine."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.beds.oci import layer_of
from tests.tools.image import __main__ as program
from tests.tools.image.archive import NAME, version
from tests.tools.image.containerfile import ROOT, config_of, stages

BUILD, FINAL = stages((ROOT / "Containerfile").read_text())


def words(word: str) -> list[str]:
    """What follows each `word` in the final stage."""
    return [step.rest for step in FINAL if step.word == word]


def test_bases_are_pinned_by_digest_for_every_platform() -> None:
    for stage in (BUILD, FINAL):
        assert re.match(r"\S+:\S+@sha256:[0-9a-f]{64}( AS \w+)?$", stage[0].rest), stage[0].rest


def test_nothing_runs_in_the_final_stage_and_its_commands_need_no_shell() -> None:
    assert words("RUN") == words("CMD") == []
    assert [json.loads(entry) for entry in words("ENTRYPOINT")] == [["/opt/kruise-ds/bin/kruise-ds-controller"]]


def test_its_user_is_a_number_so_that_the_kubelet_can_tell_it_is_not_root() -> None:
    """The Deployment says `runAsNonRoot` and no user; of a name the kubelet would not know."""
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


def test_its_containers_get_what_the_containerfile_says() -> None:
    config = config_of(FINAL, VERSION="v9", REVISION="abc")
    assert config["Entrypoint"] == ["/opt/kruise-ds/bin/kruise-ds-controller"]
    assert config["User"] == "65532:65532"
    assert config["ExposedPorts"].keys() == {"8080/tcp", "8081/tcp"}
    assert {"PATH=/opt/kruise-ds/bin:/usr/bin:/bin", "KRUISE_DS_REVISION=abc"} <= set(config["Env"])
    assert config["Labels"]["org.opencontainers.image.version"] == "v9"
    assert config["Labels"]["org.opencontainers.image.description"].endswith("controller and kubectl plugin")


def test_a_layer_tells_nothing_of_when_and_by_whom_it_was_made(tmp_path: Path) -> None:
    for name, when in (("one", 1), ("other", 2)):
        program_file = tmp_path / name / "bin" / "program"
        program_file.parent.mkdir(parents=True)
        program_file.write_text("#!/bin/sh\n")
        program_file.chmod(0o755)
        (program_file.parent / "link").symlink_to("program")
        for path in (program_file, program_file.parent):
            os.utime(path, (when, when))
    assert layer_of(tmp_path / "one") == layer_of(tmp_path / "other")


def installed(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_an_engine_builds_the_containerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """podman here; docker is there too, and has no daemon."""
    asked = tmp_path / "asked"
    installed(tmp_path, "docker", "exit 1")
    writes = f'pwd > {asked}; for word in "$@"; do echo "$word" >> {asked}; done'
    installed(tmp_path, "podman", f'test "$1" = version && exit; {writes}; exit 7')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.main([]) == 7, "what the engine returned"
    folder, *words = asked.read_text().splitlines()
    assert Path(folder) == ROOT
    assert words[:2] == ["build", "--file=Containerfile"]
    assert f"--tag={NAME}:{version()}" in words
    assert words[-1] == "."


def test_without_an_engine_that_answers_it_is_made_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Path]()

    def write(path: Path, _: object) -> None:
        path.write_bytes(b"")
        made.append(path)

    installed(tmp_path, "docker", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.main([], dist=tmp_path, write=write) == 0
    assert made == [tmp_path / f"kruise-ds-{version()}.oci.tar"]
