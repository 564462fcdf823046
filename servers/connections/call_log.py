"""Write one JSON line for every MCP call to `<data-dir>/logs/mcp.jsonl` (T-03).

It is a sink of loguru's with a level of its own, below all others: no other sink shows these records. Lines are
written before a call's caller goes on, so a process that is killed has them up to its last finished call.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from loguru import logger

from toolweave.redact import CUT
from toolweave.servers.connections.call_record import CallObserver, CallRecord
from toolweave.servers.connections.line_file import LineFile
from toolweave.servers.connections.redaction import Redaction

if TYPE_CHECKING:
    from loguru import Record
    from mcp.types import CallToolResult

LogMode = Literal["full", "ids", "off"]

FOLDER, FILE = "logs", "mcp.jsonl"
LEVEL = 1
LONGEST_PART = 2_048
LONGEST_ID = 200
MOST_BLOCKS = 100
# JSON leaves these as they are, and some readers take them for the end of a line.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
ROTATION_BYTES = 10_000_000
KEPT_FILES = 5
PATIENCE_S = 2.0


@asynccontextmanager
async def open_call_log(data_dir: Path, mode: LogMode) -> AsyncIterator[tuple[CallObserver, ...]]:
    """Give what writes the log while the block runs; nothing with the mode "off".

    The mode "ids" leaves arguments and answers out. A file that cannot be written is warned about once and tried again
    later: calls go on without it.
    """
    if mode == "off":
        yield ()
        return
    log = CallLog(data_dir / FOLDER / FILE, with_contents=mode == "full")
    await log.look_after_file()
    try:
        yield (log,)
    finally:
        await log.close()


class CallLog:
    """The log of one tool plane; several may write to one file, each its own calls."""

    def __init__(self, path: Path, *, with_contents: bool) -> None:
        self._path = path
        self._with_contents = with_contents
        self._plane = uuid4().hex[:12]
        self._warned = False
        self._file = LineFile(path, limit=ROTATION_BYTES, kept=KEPT_FILES)
        # Whatever may block is done on a thread; a line itself is one system call that does not.
        self._looking: asyncio.Task[None] | None = None
        self._sink = logger.add(
            self._file,
            level=LEVEL,
            format="{message}",
            filter=self._is_ours,
            serialize=True,
            # Else the record of a failed write would go to stderr, and its error to nobody.
            catch=False,
            backtrace=False,
            diagnose=False,
        )

    def __call__(self, record: CallRecord) -> None:
        """Write a call that has ended."""
        facts = self._facts(record)
        if self._file.is_due and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self.look_after_file())
        try:
            logger.bind(plane=self._plane, **facts).log(
                LEVEL, "MCP call {}/{} {}", record.server, record.tool, record.outcome
            )
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("MCP calls cannot be written to {}: {}; they go on", self._path, error)

    async def look_after_file(self) -> None:
        """Open the file, or see to it that it is still there and not too large."""
        await asyncio.to_thread(self._file.look_after)

    async def close(self) -> None:
        """Write no more."""
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=PATIENCE_S)
        # It may be gone: an application may have removed all sinks.
        with suppress(ValueError):
            logger.remove(self._sink)
        self._file.stop()

    def _is_ours(self, record: "Record") -> bool:
        return record["level"].no == LEVEL and record["extra"].get("plane") is self._plane

    def _facts(self, record: CallRecord) -> dict[str, Any]:
        context, redaction = record.context, record.redaction
        facts: dict[str, Any] = {
            "timestamp": record.started.isoformat(),
            "server": record.server,
            "tool": record.tool,
            "outcome": record.outcome,
            "reason": record.reason,
            "attempts": record.attempts,
            "duration_ms": record.duration_ms,
            "thread_id": _bounded(context.thread_id),
            "run_id": _bounded(context.run_id),
            "user_id": _bounded(context.user_id),
            "correlation_id": _bounded(context.correlation_id),
            "tool_call_id": _bounded(context.tool_call_id),
        }
        if self._with_contents:
            facts["arguments"] = shortened(json.dumps(redaction.redact(record.arguments), ensure_ascii=False))
            facts["response"] = None if record.result is None else shortened(response_text(record.result, redaction))
        return facts


def response_text(result: "CallToolResult", redaction: Redaction) -> str:
    """Give the beginning of an answer as text, without secrets: texts as they are, other blocks by their type."""
    texts: list[str] = []
    room = LONGEST_PART
    for block in result.content[:MOST_BLOCKS]:
        if room <= 0:
            break
        text = getattr(block, "text", None) or getattr(getattr(block, "resource", None), "text", None)
        texts.append(redaction.redact(text) if isinstance(text, str) else f"[{block.type}]")
        room -= len(texts[-1])
    if not texts and result.structuredContent is not None:
        return json.dumps(redaction.redact(result.structuredContent), ensure_ascii=False)
    return "\n".join(texts if len(texts) == len(result.content) else [*texts, CUT])


def shortened(text: str) -> str:
    """Cut a text to `LONGEST_PART` bytes of UTF-8, with a sign that it is cut."""
    written = text.encode("utf-8", "backslashreplace")
    if len(written) <= LONGEST_PART:
        return text.translate(_LINE_ENDS)
    return written[: LONGEST_PART - len(CUT.encode())].decode("utf-8", "ignore").translate(_LINE_ENDS) + CUT


def _bounded(given: str | None) -> str | None:
    return None if given is None else given[:LONGEST_ID]
