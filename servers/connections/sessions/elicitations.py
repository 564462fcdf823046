"""Handle the questions that a server sends during a tool call (MCP elicitation, S-07).

A user's answer takes longer than a call's timeout. So Toolweave answers `cancel` at once and returns the question with
the call's result. After the user has answered, the call is sent again, and the stored answer is sent for its question.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from loguru import logger
from mcp import ClientSession
from mcp.shared.context import RequestContext
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult, RequestId
from pydantic_core import PydanticSerializationError, to_json

from toolweave.config.mcp import McpServerConfig
from toolweave.invisible_text import visible_text
from toolweave.servers.connections.context import META_PREFIX, QUESTIONS_KEY, UNCLEAR_KEY, Elicitation, ElicitedAnswer
from toolweave.servers.connections.redaction import Redaction

MAX_QUESTIONS = 20
MAX_QUESTION_CHARS = 20_000
MAX_TRACKED_QUESTIONS = 100
CANCEL = ElicitResult(action="cancel")
DECLINE = ElicitResult(action="decline")


@dataclass(slots=True)
class PendingCall:
    """A call that waits for its result: the stored answers of the user, and the questions without an answer.

    `is_unclear`: a question arrived that belongs to this call or to another pending call.
    """

    answers: list[ElicitedAnswer]
    questions: list[Elicitation] = field(default_factory=list)
    is_unclear: bool = False

    def answer_question(self, question: Elicitation) -> ElicitResult:
        """Return the stored answer for this question and remove it; without one, store the question and cancel."""
        for index, answer in enumerate(self.answers):
            if (answer["message"], answer["requestedSchema"]) == (question["message"], question["requestedSchema"]):
                del self.answers[index]
                return _elicit_result(answer)
        if len(self.questions) < MAX_QUESTIONS:
            self.questions.append(question)
        return CANCEL

    def attach_questions(self, result: CallToolResult) -> CallToolResult:
        """Return the result with the questions in its `_meta`, without the server's own values for Toolweave's keys."""
        result_meta = result.meta or {}
        its = {key: value for key, value in result_meta.items() if not key.startswith(META_PREFIX)}
        ours = {key: value for key, value in ((QUESTIONS_KEY, self.questions), (UNCLEAR_KEY, self.is_unclear)) if value}
        if not ours and len(its) == len(result_meta):
            return result
        return result.model_copy(update={"meta": {**its, **ours}})


class Elicitations:
    """The elicitations of one session, each assigned to the pending call that it belongs to.

    Over streamable HTTP a question arrives on the stream of its call's POST. The other transports do not name the
    call, so after the first question the session runs one call at a time; `elicit: true` sets this from the start. The
    calls that were pending at the first question are marked as unclear; their callers repeat them if that is allowed.
    """

    def __init__(self, config: McpServerConfig, redaction: Redaction) -> None:
        self._server = config.name
        self._redaction = redaction
        self._pending_calls: dict[RequestId, PendingCall] = {}
        self._request_ids: dict[RequestId, RequestId] = {}
        self._one_at_a_time = config.elicit and config.transport != "http"
        self._running_calls = 0
        self._call_ended = asyncio.Event()

    @property
    def has_pending_calls(self) -> bool:
        """Return whether a call is pending."""
        return bool(self._pending_calls)

    @asynccontextmanager
    async def call_slot(self) -> AsyncIterator[None]:
        """Wait until a call may start; the next one may start when the block ends."""
        while self._one_at_a_time and self._running_calls:
            self._call_ended.clear()
            await self._call_ended.wait()
        self._running_calls += 1
        try:
            yield
        finally:
            self._running_calls -= 1
            self._call_ended.set()

    @contextmanager
    def track_call(self, request_id: RequestId, answers: Sequence[ElicitedAnswer]) -> Iterator[PendingCall]:
        """Assign questions to this call until the block ends."""
        call = self._pending_calls[request_id] = PendingCall(list(answers))
        try:
            yield call
        finally:
            del self._pending_calls[request_id]

    def record_request(self, elicitation: RequestId, request_id: RequestId) -> None:
        """Record that a question arrived on the stream of the request `request_id`, whose call may have ended."""
        self._request_ids[elicitation] = request_id
        if len(self._request_ids) > MAX_TRACKED_QUESTIONS:  # the SDK could not parse these questions
            del self._request_ids[next(iter(self._request_ids))]

    async def answer(self, context: RequestContext[ClientSession, Any], params: ElicitRequestParams) -> ElicitResult:
        """Answer one question; the session's elicitation callback."""
        call = self._find_call(context.request_id)
        if not isinstance(params, ElicitRequestFormParams):
            return DECLINE
        question = self._displayed_question(params)
        if call is None or len(json.dumps(question)) > MAX_QUESTION_CHARS:
            reason = (
                "its text is too long"
                if call
                else "it is unclear to which call it belongs; from now on this server gets one call at a time"
            )
            logger.bind(server=self._server).warning(
                "MCP server {} sent a question that was not shown to the user: {}", self._server, reason
            )
            return CANCEL
        return call.answer_question(question)

    def _displayed_question(self, params: ElicitRequestFormParams) -> Elicitation:
        """Return a question as it is shown to the user and compared when the server repeats it."""
        question = {"message": params.message, "requestedSchema": params.requestedSchema}
        plain: Elicitation = self._redaction.redact_credentials(question)
        return {**plain, "message": visible_text(plain["message"])}

    def _find_call(self, elicitation: RequestId) -> PendingCall | None:
        request_id = self._request_ids.pop(elicitation, None)
        if request_id is not None:
            return self._pending_calls.get(request_id)
        self._one_at_a_time = True
        if len(self._pending_calls) == 1:
            return next(iter(self._pending_calls.values()))
        for call in self._pending_calls.values():
            call.is_unclear = True
        return None


def _elicit_result(answer: ElicitedAnswer) -> ElicitResult:
    """Return a stored answer as a result; decline if it was changed so that it cannot be serialized."""
    try:
        result = ElicitResult(action=answer["action"], content=answer["content"])
        to_json(result.content)
    except (PydanticSerializationError, ValueError):
        return DECLINE
    return result
