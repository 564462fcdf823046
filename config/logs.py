"""Configure the log: readable on a terminal, JSON lines elsewhere, including standard-library loggers."""

import json
import logging
import re
import shutil
import sys
import textwrap
import traceback
from contextlib import suppress
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from loguru import logger

from toolweave.config.settings import Settings
from toolweave.log_ids import LOG_IDS

if TYPE_CHECKING:
    from loguru import Record

# Below these levels the loggers write noise, or quote requests, responses, statements and environment values.
_LOGGER_LEVELS = {
    **dict.fromkeys(
        ("aiosqlite", "alembic", "httpcore", "httpx", "httpx2", "openai", "sse_starlette"), logging.WARNING
    ),
    "langchain_mcp_adapters": logging.ERROR,
    **dict.fromkeys(("asyncio", "mcp"), logging.INFO),
    # It quotes what servers send; the tool plane logs the same events without secrets.
    "mcp.client": logging.CRITICAL,
    # It writes a line per span; `runtime/runs/tracing.py` logs one when a collector fails.
    **dict.fromkeys(("opentelemetry", "openinference"), logging.CRITICAL),
}
# The MCP SDK's session uses the root logger; its messages quote server data after the colon.
_MCP_SESSION_FILE = "mcp/shared/session.py"
_COLOURS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "1;31", "SUCCESS": "32", "DEBUG": "2", "TRACE": "2"}
# Line feeds and tabs stay; escape sequences in texts of servers must not reach the terminal.
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INDENT = " " * 13
"""The width of a line's time."""
# The human format shows these ids only, and only on lines that call for a search.
_HUMAN_IDS, _HUMAN_IDS_LEVEL = ("run_id", "thread_id"), logging.WARNING
_FIELDS = ("time", "level", "logger", "message", "exception")
# The id of loguru's default sink, later of the sink that configure_logging added last.
_sink_id = [0]


_RUN_MODULE = "toolweave.runtime.runs.execution"
# Modules that log each run and each tool call at level DEBUG, and nothing else.
_ACTIVITY_MODULES = ("toolweave.runtime.runs.engine", "toolweave.servers.connections.observability")


def configure_logging(
    settings: Settings, *, stream: TextIO | None = None, with_activity: bool = False, with_run_errors: bool = True
) -> None:
    """Send loguru and standard-library records to `stream` (default: stderr); replace the sink of an earlier call.

    Other sinks, such as the log of MCP calls, stay. `log_format` "auto" selects the human format on a terminal, and
    JSON lines otherwise. `with_activity` adds a line per run and per tool call (U-06). Without
    `with_run_errors`, errors of runs, which the caller shows, are left out, but for those with a stack.
    """
    target = sys.stderr if stream is None else stream
    human = settings.log_format == "human" or (settings.log_format == "auto" and target.isatty())
    render = partial(_human_line, stream=target) if human else _json_line
    shown = None if with_run_errors else _is_no_plain_run_error
    logger.enable("toolweave")
    with suppress(ValueError):  # already removed
        logger.remove(_sink_id[0])
    _sink_id[0] = logger.add(
        lambda message: _write(target, render(message.record)),
        level=0 if with_activity else settings.log_level,
        filter={"": settings.log_level, **dict.fromkeys(_ACTIVITY_MODULES, "DEBUG")} if with_activity else shown,
        format=lambda _record: "",
        backtrace=False,
        diagnose=False,
    )
    _redirect_standard_loggers(settings.log_level)


class _LoguruHandler(logging.Handler):
    """Forwards standard-library records to loguru under their logger's name."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage().rstrip()
        except (TypeError, ValueError, KeyError):
            message = str(record.msg)
        exc_info = record.exc_info
        if record.name == "root" and record.pathname.endswith(_MCP_SESSION_FILE):
            message, exc_info = message.partition(":")[0], None
        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno

        def rename(target: "Record") -> None:
            target["name"], target["function"], target["line"] = record.name, record.funcName, record.lineno

        logger.patch(rename).opt(exception=exc_info).log(level, "{}", message)


def _redirect_standard_loggers(level: str) -> None:
    for known in logging.root.manager.loggerDict.values():
        if isinstance(known, logging.Logger):
            known.handlers.clear()
            known.propagate = True
    for name, quiet in _LOGGER_LEVELS.items():
        logging.getLogger(name).setLevel(quiet)
    logging.root.handlers = [_LoguruHandler()]
    logging.root.setLevel(logger.level(level).no)
    logging.captureWarnings(True)


def _write(stream: TextIO, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


def _is_no_plain_run_error(record: "Record") -> bool:
    return record["name"] != _RUN_MODULE or record["exception"] is not None


def _json_line(record: "Record") -> str:
    line: dict[str, Any] = {
        "time": record["time"].astimezone(UTC).isoformat(timespec="milliseconds"),
        "level": record["level"].name,
        "logger": record["name"],
        "message": record["message"],
    }
    line |= {
        f"{name}_" if name in _FIELDS else name: value
        for name, value in record["extra"].items()
        if not (value is None and name in LOG_IDS)
    }
    if text := _exception_text(record):
        line["exception"] = text
    try:
        return json.dumps(line, default=str, skipkeys=True, allow_nan=False)
    except ValueError:  # NaN, or a field that contains itself
        return json.dumps({name: value if name in _FIELDS else str(value) for name, value in line.items()})


def wrap_for_terminal(text: str, stream: TextIO, indent: str) -> str:
    """Wrap the lines of a text to the terminal's width if `stream` is a terminal; `indent` begins further lines."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrapped = (
        textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
        for line in text.split("\n")
    )
    return "\n".join("\n".join(lines) for lines in wrapped)


def _human_line(record: "Record", stream: TextIO) -> str:
    time = record["time"].isoformat(timespec="milliseconds")[11:23]
    if record["name"] in _ACTIVITY_MODULES and record["level"].name == "DEBUG":
        line = f"{time} {_CONTROL_CHARS.sub(_escape_control, record['message'])}"
        return wrap_for_terminal(line, stream, _INDENT)
    level = f"{record['level'].name:<8}"
    shown_ids = _HUMAN_IDS if record["level"].no >= _HUMAN_IDS_LEVEL else ()
    fields = "".join(
        f" {name}={value}"
        for name, value in record["extra"].items()
        if name not in LOG_IDS or (name in shown_ids and value is not None)
    )
    text = f"{record['name']}: {record['message']}{fields}"
    if exception := _exception_text(record):
        text += f"\n{exception}"
    line = wrap_for_terminal(f"{time} {level} {_CONTROL_CHARS.sub(_escape_control, text)}", stream, _INDENT)
    colour = _COLOURS.get(record["level"].name, "36")
    return line.replace(level, f"\x1b[{colour}m{level}\x1b[0m", 1) if stream.isatty() else line


def _escape_control(match: re.Match[str]) -> str:
    return f"\\x{ord(match.group()):02x}"


def _exception_text(record: "Record") -> str:
    raised = record["exception"]
    if raised is None or raised.type is None:
        return ""
    return "".join(traceback.format_exception(raised.type, raised.value, raised.traceback)).rstrip()
