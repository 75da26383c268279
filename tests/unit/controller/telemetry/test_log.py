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

from controller.settings import LogFormat
from controller.telemetry import log


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


def test_an_exception_carries_its_trace_in_one_line(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    try:
        raise KeyError("pod-1")
    except KeyError:
        structlog.get_logger().exception("pass crashed")
    (line,) = lines(out)
    assert "KeyError: 'pod-1'" in line["exception"]


def test_values_that_are_no_json_are_written_as_text(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    structlog.get_logger().info("x", error=ValueError("bad"), where=object)
    assert lines(out)[0]["error"] == "bad"


@pytest.mark.parametrize("format_", ["json", "console"])
def test_secrets_do_not_reach_the_log(out: io.BytesIO, format_: LogFormat) -> None:
    log.configure("info", format_, out)
    structlog.get_logger().info(
        "request failed", token="s3cr3t-value", Authorization="x", error="sent 'Bearer eyJhbGciOi.abc' and failed"
    )
    text = out.getvalue().decode()
    assert "s3cr3t-value" not in text
    assert "eyJhbGciOi" not in text
    assert text.count("(hidden)") == 3


def test_lines_of_libraries_have_the_same_shape(out: io.BytesIO) -> None:
    log.configure("info", "json", out)
    logging.getLogger("asyncio").error("Task exception was never %s", "retrieved")
    logging.getLogger("asyncio").info("chatter")
    (line,) = lines(out)
    assert (line["msg"], line["logger"], line["level"]) == ("Task exception was never retrieved", "asyncio", "error")


def test_the_console_is_for_people(out: io.BytesIO) -> None:
    log.configure("info", "console", out)
    with bound_contextvars(daemonset="shop/agent", reconcile_id="r-7"):
        structlog.get_logger().info("reconciled")
    text = out.getvalue().decode()
    assert "reconciled" in text
    assert "daemonset=shop/agent" in text


def test_an_unknown_level_is_refused(out: io.BytesIO) -> None:
    with pytest.raises(ValueError, match="'loud' is none of debug, info"):
        log.configure("loud", "json", out)
