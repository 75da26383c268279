"""Lines of the log, as JSON and for people."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from controller import app
from controller.kube.connection import Connection
from controller.kube.errors import ApiError, Cause, Invalid
from controller.observe import log
from controller.settings import LogFormat, Settings


@pytest.fixture
def out() -> Iterator[io.BytesIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield io.BytesIO()
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


def lines(out: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_one_json_object_that_says_what_it_is_about(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    logger = structlog.get_logger()
    with bound_contextvars(daemonset="shop/agent", reconcile_id="r-7", reason="pod,node"):
        logger.info("reconciled", result="success", created=3)
    logger.info("outside")
    first, second = lines(out)
    assert first.pop("time").endswith("Z")
    assert first == {
        "msg": "reconciled",
        "level": "info",
        "daemonset": "shop/agent",
        "reconcile_id": "r-7",
        "reason": "pod,node",
        "result": "success",
        "created": 3,
    }
    assert "daemonset" not in second


def test_levels_below_the_wanted_one_are_left_out(out: io.BytesIO) -> None:
    log.configure("warning", "json", out)
    logger = structlog.get_logger()
    logger.info("no")
    logger.warning("yes")
    assert [line["msg"] for line in lines(out)] == ["yes"]


@pytest.mark.parametrize("format_", ["json", "console"])
def test_an_error_is_logged_by_its_kind_and_frames_alone(out: io.BytesIO, format_: LogFormat) -> None:
    log.configure("info", format_, out)
    refused = Invalid("create", "pods agent-1", "MARKER", status=422, causes=(Cause(field="spec.hostPID"),))
    try:
        try:
            raise refused
        except ApiError as error:
            raise ExceptionGroup("MARKER", [KeyError("MARKER"), OSError(5, "MARKER")]) from error
    except ExceptionGroup as errors:
        structlog.get_logger().exception("pass crashed", why=errors)
        structlog.get_logger().error("pass failed", why=refused)
        logging.getLogger("asyncio").error("never retrieved\nfuture: <Task %r>", errors, exc_info=errors)
    logged = out.getvalue().decode()
    assert "MARKER" not in logged
    for words in ("create pods agent-1: Invalid (HTTP 422): spec.hostPID", "KeyError", "OSError", __file__):
        assert logged.count(words) >= 2, words


async def test_a_bug_ends_the_process_with_its_frames_and_no_text(
    out: io.BytesIO, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def broken(*_: object) -> Connection:
        raise KeyError("MARKER")

    assert await app.main_loop(Settings(), connection_of=broken) == 1
    logged = capfdbinary.readouterr().err
    assert b"broken" in logged
    assert b"MARKER" not in logged


def test_values_that_are_no_json_are_written_as_text(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    structlog.get_logger().info("x", error=ValueError("bad"), where=object)
    assert (lines(out)[0]["error"], lines(out)[0]["where"]) == ("ValueError", "<class 'object'>")


def test_lines_of_libraries_have_the_same_shape(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: %s", "MARKER")
    logging.getLogger("asyncio").error("Exception in callback handle('MARKER')")
    logging.getLogger("asyncio").info("chatter")
    fields = [(line["msg"], line["logger"], line["level"]) for line in lines(out)]
    assert fields == [
        ("Task exception was never retrieved", "asyncio", "error"),
        ("Exception in callback handle", "asyncio", "error"),
    ]


def test_the_console_is_for_people(out: io.BytesIO) -> None:
    log.configure("info", "console", out)
    with bound_contextvars(daemonset="shop/agent", reconcile_id="r-7"):
        structlog.get_logger().info("reconciled")
    text = out.getvalue().decode()
    assert "reconciled" in text
    assert "daemonset=shop/agent" in text
