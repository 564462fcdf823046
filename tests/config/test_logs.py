"""The log is JSON lines off a terminal, readable text on one, and all loggers of the process are in it."""

import io
import json
import logging
import logging.config
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger
from uvicorn.config import LOGGING_CONFIG

from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings, load_settings

SECRET = "s3cr3t-9f8e7d"
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def to_stderr(message: str) -> None:
    sys.stderr.write(message)


@pytest.fixture(autouse=True)
def restored_loggers() -> Iterator[None]:
    """Undo what configure_logging does to the process."""
    handlers, level = logging.root.handlers[:], logging.root.level
    known = [item for item in logging.root.manager.loggerDict.values() if isinstance(item, logging.Logger)]
    before = [(item, item.handlers[:], item.level, item.propagate) for item in known]
    logger.remove()
    yield
    logging.captureWarnings(False)
    logging.root.handlers, logging.root.level = handlers, level
    for item, own_handlers, own_level, propagate in before:
        item.handlers, item.propagate = own_handlers, propagate
        item.setLevel(own_level)
    logger.remove()
    logger.add(to_stderr)


def configured(stream: io.StringIO | None = None, **settings: Any) -> io.StringIO:
    target = io.StringIO() if stream is None else stream
    configure_logging(Settings(**settings), stream=target)
    return target


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_compact_json_object_on_one_line() -> None:
    stream = configured()
    logger.bind(server="todo", tools=5).info("ready\nand willing")
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert line == {
        "level": "INFO",
        "logger": "tests.config.test_logs",
        "message": "ready\nand willing",
        "server": "todo",
        "tools": 5,
    }


def test_an_exception_is_text_in_its_line_without_the_values_of_variables() -> None:
    stream = configured()
    try:
        int("x" if SECRET else "y")
    except ValueError:
        logger.exception("conversion failed")
    (line,) = lines(stream)
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'x'")
    assert SECRET not in stream.getvalue()


def test_settings_in_a_log_line_hide_their_secrets() -> None:
    stream = configured()
    settings = load_settings({"OPENAI_API_KEY": SECRET, "TOOLWEAVE_TODO_ENV": json.dumps({"KEY": SECRET})})
    logger.bind(settings=settings, key=settings.openai_api_key).info("{}", settings)
    assert SECRET not in stream.getvalue()
    assert lines(stream)[0]["key"] == "**********"


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"error": OSError("gone")}, {"error": "gone"}),
        ({"ratio": float("nan")}, {"ratio": "nan"}),
        ({"circle": CIRCLE}, {"circle": "[[...]]"}),
        ({"time": "noon", "message": "mine"}, {"time_": "noon", "message_": "mine", "message": "text"}),
        ({"pairs": {(1, 2): 3}}, {}),
    ],
    ids=repr,
)
def test_fields_that_json_cannot_hold_are_written_as_text(fields: dict[str, Any], written: dict[str, str]) -> None:
    stream = configured()
    logger.bind(**fields).info("text")
    [line] = lines(stream)
    assert line.items() >= written.items()


def test_a_second_configuration_replaces_the_first_and_leaves_the_sinks_of_others_alone() -> None:
    others: list[str] = []
    configured()
    logger.remove()
    logger.add(others.append, format="{message}")
    first = configured()
    second = configured()
    logger.info("once")
    logging.getLogger("x").warning("of a library")
    assert first.getvalue() == ""
    assert [line["message"] for line in lines(second)] == ["once", "of a library"]
    assert others == ["once\n", "of a library\n"]


def test_records_below_the_level_are_left_out() -> None:
    stream = configured(log_level="WARNING")
    logger.info("quiet")
    logging.getLogger("some.library").info("quiet")
    logger.warning("loud")
    logging.getLogger("some.library").error("loud")
    assert [line["level"] for line in lines(stream)] == ["WARNING", "ERROR"]


def test_standard_loggers_keep_name_and_level_and_exception() -> None:
    stream = configured()
    try:
        raise OSError("disk full")
    except OSError:
        logging.getLogger("some.library").exception("could not write %s", "line")
    logging.getLogger("custom").log(25, "between")
    (first, second) = lines(stream)
    assert (first["logger"], first["level"]) == ("some.library", "ERROR")
    assert first["message"] == "could not write line"
    assert first["exception"].endswith("OSError: disk full")
    assert (second["logger"], second["level"]) == ("custom", "Level 25")


@pytest.mark.parametrize(("text", "arguments"), [("%s and %d", ("one",)), ("{0} {name} <red>", ())])
def test_a_standard_record_that_cannot_be_formatted_is_logged_as_it_is(text: str, arguments: tuple[str, ...]) -> None:
    stream = configured()
    logging.getLogger("careless").warning(text, *arguments)
    assert lines(stream)[0]["message"] == text


def test_uvicorn_loses_its_own_handlers(capfd: pytest.CaptureFixture[str]) -> None:
    logging.config.dictConfig(LOGGING_CONFIG)
    stream = configured()
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 1)
    logging.getLogger("uvicorn.access").info(
        '%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", "/ok", "1.1", 200, extra={"status_code": 200}
    )
    assert [(line["logger"], line["message"]) for line in lines(stream)] == [
        ("uvicorn.error", "Started server process [1]"),
        ("uvicorn.access", '127.0.0.1:1 - "GET /ok HTTP/1.1" 200'),
    ]
    assert capfd.readouterr() == ("", "")


def test_libraries_that_quote_requests_and_environments_stay_quiet_at_every_level() -> None:
    stream = configured(log_level="TRACE")
    logging.getLogger("httpx").info("HTTP Request: GET https://h/?key=%s", SECRET)
    logging.getLogger("httpcore.http11").debug("send_request_headers %s", SECRET)
    logging.getLogger("openai._base_client").debug("Request options: %s", SECRET)
    logging.getLogger("aiosqlite").debug("executing %s", SECRET)
    logging.getLogger("sse_starlette.sse").debug("chunk: %s", SECRET)
    logging.getLogger("langchain_mcp_adapters.sessions").warning("env[%r] contains %r", "KEY", SECRET)
    assert stream.getvalue() == ""
    logging.getLogger("httpx").warning("logged")
    assert lines(stream)[0]["message"] == "logged"


def test_python_warnings_go_to_the_log() -> None:
    stream = configured()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)
    (line,) = lines(stream)
    assert (line["logger"], line["level"]) == ("py.warnings", "WARNING")
    assert "DeprecationWarning: this is old" in line["message"]


def test_a_terminal_gets_coloured_text_with_fields() -> None:
    stream = configured(Terminal())
    logger.bind(server="todo").warning("is gone")
    written = stream.getvalue()
    assert re.match(r"\d\d:\d\d:\d\d\.\d{3} ", written)
    assert written.endswith("tests.config.test_logs: is gone server=todo\n")
    assert "\x1b[33mWARNING \x1b[0m" in written


def test_the_setting_of_the_format_counts_for_every_stream() -> None:
    human = configured(log_format="human")
    logger.info("hello")
    assert human.getvalue().endswith(" INFO     tests.config.test_logs: hello\n")
    assert "\x1b" not in human.getvalue()
    assert lines(configured(Terminal(), log_format="json")) == []
    terminal = configured(Terminal(), log_format="json")
    logger.info("hello")
    assert lines(terminal)[0]["message"] == "hello"


def test_text_of_others_cannot_steer_the_terminal() -> None:
    stream = configured(Terminal())
    logger.bind(answer="\x07").info("\x1b[2J\rcleared\n\tnext line\x9b1m <red>")
    written = stream.getvalue()
    assert r"\x1b[2J\x0dcleared" in written
    assert "\n        next line\\x9b1m <red> answer=\\x07\n" in written


def test_the_human_form_shows_the_exception_below_the_line() -> None:
    stream = configured(log_format="human")
    try:
        raise OSError("gone")
    except OSError:
        logger.exception("lost")
    assert "lost\nTraceback (most recent call last):\n" in stream.getvalue()
    assert stream.getvalue().endswith("OSError: gone\n")


def test_the_log_goes_to_stderr_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(Settings())
    logger.info("hello")
    out, err = capsys.readouterr()
    assert (out, json.loads(err)["message"]) == ("", "hello")


def test_log_lines_of_the_mcp_sdk_contain_no_message_of_a_server() -> None:
    out = configured(log_level="TRACE")
    for name in ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse"):
        logging.getLogger(name).error("Failed to parse %s", SECRET)
    quoted = f"Failed to validate notification: token={SECRET}"
    quoting = logging.LogRecord("root", logging.WARNING, "/lib/mcp/shared/session.py", 430, quoted, None, None)
    logging.root.handle(quoting)
    [line] = lines(out)
    assert line["message"] == "Failed to validate notification"
