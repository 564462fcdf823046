"""Answer what a server asks in the middle of a tool call (MCP elicitation, S-07).

A person's answer takes longer than a call may. So the question is answered `cancel` at once and handed out with the
call's result; when the person has answered, the call is issued once more, and the answer kept for it is given to the
question it belongs to.
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
MAX_TRACKED = 100
CANCEL = ElicitResult(action="cancel")
DECLINE = ElicitResult(action="decline")


@dataclass(slots=True)
class PendingCall:
    """A call that waits for its result: the answers it brought, and the server's questions beyond them.

    `doubt`: a question came that belongs to this call or to another open one.
    """

    answers: list[ElicitedAnswer]
    questions: list[Elicitation] = field(default_factory=list)
    is_unclear: bool = False

    def answer_question(self, question: Elicitation) -> ElicitResult:
        """Use the answer kept for this very question, each one once; without one, note the question and cancel."""
        for index, answer in enumerate(self.answers):
            if (answer["message"], answer["requestedSchema"]) == (question["message"], question["requestedSchema"]):
                del self.answers[index]
                return _elicit_result(answer)
        if len(self.questions) < MAX_QUESTIONS:
            self.questions.append(question)
        return CANCEL

    def attach_questions(self, result: CallToolResult) -> CallToolResult:
        """Put the questions into the result's `_meta`; what a server put under our keys is removed."""
        result_meta = result.meta or {}
        its = {key: value for key, value in result_meta.items() if not key.startswith(META_PREFIX)}
        ours = {key: value for key, value in ((QUESTIONS_KEY, self.questions), (UNCLEAR_KEY, self.is_unclear)) if value}
        if not ours and len(its) == len(result_meta):
            return result
        return result.model_copy(update={"meta": {**its, **ours}})


class Elicitations:
    """What one session's server asks, and during which of the open calls.

    Over streamable HTTP a question comes on the stream of its call's POST. Elsewhere nothing says which call it
    belongs to, so a server that asks runs one call at a time; `elicit: true` says from the start that it does. Until
    then calls may be in doubt, and are issued again by whoever made them if they may be repeated.
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
        """Return whether a call is open."""
        return bool(self._pending_calls)

    @asynccontextmanager
    async def call_slot(self) -> AsyncIterator[None]:
        """Wait until a call may begin, and let the next one begin when the block ends."""
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
        """Take the server's questions for those of this call until the block ends."""
        call = self._pending_calls[request_id] = PendingCall(list(answers))
        try:
            yield call
        finally:
            del self._pending_calls[request_id]

    def record_request(self, elicitation: RequestId, request_id: RequestId) -> None:
        """Note that a question came on the stream of the request `request_id`, whose call may be over by now."""
        self._request_ids[elicitation] = request_id
        if len(self._request_ids) > MAX_TRACKED:  # of questions that the SDK could not read
            del self._request_ids[next(iter(self._request_ids))]

    async def answer(self, context: RequestContext[ClientSession, Any], params: ElicitRequestParams) -> ElicitResult:
        """Answer one question: the session's elicitation callback."""
        call = self._find_call(context.request_id)
        if not isinstance(params, ElicitRequestFormParams):
            return DECLINE
        question = self._displayed_question(params)
        if call is None or len(json.dumps(question)) > MAX_QUESTION_CHARS:
            reason = (
                "its text is too long"
                if call
                else "it cannot be told which of its calls it belongs to; now they take turns"
            )
            logger.bind(server=self._server).warning(
                "MCP server {} asked something that nobody was shown: {}", self._server, reason
            )
            return CANCEL
        return call.answer_question(question)

    def _displayed_question(self, params: ElicitRequestFormParams) -> Elicitation:
        """Write a question as a person gets it, and as it is known again when it comes once more."""
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
    """Write a kept answer; one that was changed meanwhile so that it cannot be sent is as good as declined."""
    try:
        result = ElicitResult(action=answer["action"], content=answer["content"])
        to_json(result.content)
    except (PydanticSerializationError, ValueError):
        return DECLINE
    return result
