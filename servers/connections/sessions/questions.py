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
from toolweave.servers.connections.context import META_PREFIX, QUESTIONS_KEY, UNCLEAR_KEY, Elicitation, ElicitedAnswer
from toolweave.servers.connections.redaction import Redaction
from toolweave.visible import visible

MOST_QUESTIONS = 20
LONGEST_QUESTION = 20_000
MOST_CARRIED = 100
CANCEL = ElicitResult(action="cancel")
DECLINE = ElicitResult(action="decline")


@dataclass(slots=True)
class OpenCall:
    """A call that waits for its result: the answers it brought, and the server's questions beyond them.

    `doubt`: a question came that belongs to this call or to another open one.
    """

    answers: list[ElicitedAnswer]
    questions: list[Elicitation] = field(default_factory=list)
    doubt: bool = False

    def reply(self, question: Elicitation) -> ElicitResult:
        """Use the answer kept for this very question, each one once; without one, note the question and cancel."""
        for index, answer in enumerate(self.answers):
            if (answer["message"], answer["requestedSchema"]) == (question["message"], question["requestedSchema"]):
                del self.answers[index]
                return _sendable(answer)
        if len(self.questions) < MOST_QUESTIONS:
            self.questions.append(question)
        return CANCEL

    def with_questions(self, result: CallToolResult) -> CallToolResult:
        """Put the questions into the result's `_meta`; what a server put under our keys is removed."""
        given = result.meta or {}
        its = {key: value for key, value in given.items() if not key.startswith(META_PREFIX)}
        ours = {key: value for key, value in ((QUESTIONS_KEY, self.questions), (UNCLEAR_KEY, self.doubt)) if value}
        if not ours and len(its) == len(given):
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
        self._open: dict[RequestId, OpenCall] = {}
        self._carried_by: dict[RequestId, RequestId] = {}
        self._one_at_a_time = config.elicit and config.transport != "http"
        self._begun = 0
        self._ended = asyncio.Event()

    @property
    def has_calls(self) -> bool:
        """Return whether a call is open."""
        return bool(self._open)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a call may begin, and let the next one begin when the block ends."""
        while self._one_at_a_time and self._begun:
            self._ended.clear()
            await self._ended.wait()
        self._begun += 1
        try:
            yield
        finally:
            self._begun -= 1
            self._ended.set()

    @contextmanager
    def during(self, request_id: RequestId, answers: Sequence[ElicitedAnswer]) -> Iterator[OpenCall]:
        """Take the server's questions for those of this call until the block ends."""
        call = self._open[request_id] = OpenCall(list(answers))
        try:
            yield call
        finally:
            del self._open[request_id]

    def arrived_with(self, elicitation: RequestId, request_id: RequestId) -> None:
        """Note that a question came on the stream of the request `request_id`, whose call may be over by now."""
        self._carried_by[elicitation] = request_id
        if len(self._carried_by) > MOST_CARRIED:  # of questions that the SDK could not read
            del self._carried_by[next(iter(self._carried_by))]

    async def answer(self, context: RequestContext[ClientSession, Any], params: ElicitRequestParams) -> ElicitResult:
        """Answer one question: the session's elicitation callback."""
        call = self._asking(context.request_id)
        if not isinstance(params, ElicitRequestFormParams):
            return DECLINE
        question = self._shown(params)
        if call is None or len(json.dumps(question)) > LONGEST_QUESTION:
            why = (
                "its text is too long"
                if call
                else "it cannot be told which of its calls it belongs to; now they take turns"
            )
            logger.bind(server=self._server).warning(
                "MCP server {} asked something that nobody was shown: {}", self._server, why
            )
            return CANCEL
        return call.reply(question)

    def _shown(self, params: ElicitRequestFormParams) -> Elicitation:
        """Write a question as a person gets it, and as it is known again when it comes once more."""
        asked = {"message": params.message, "requestedSchema": params.requestedSchema}
        plain: Elicitation = self._redaction.redact_credentials(asked)
        return {**plain, "message": visible(plain["message"])}

    def _asking(self, elicitation: RequestId) -> OpenCall | None:
        carrier = self._carried_by.pop(elicitation, None)
        if carrier is not None:
            return self._open.get(carrier)
        self._one_at_a_time = True
        if len(self._open) == 1:
            return next(iter(self._open.values()))
        for call in self._open.values():
            call.doubt = True
        return None


def _sendable(answer: ElicitedAnswer) -> ElicitResult:
    """Write a kept answer; one that was changed meanwhile so that it cannot be sent is as good as declined."""
    try:
        result = ElicitResult(action=answer["action"], content=answer["content"])
        to_json(result.content)
    except (PydanticSerializationError, ValueError):
        return DECLINE
    return result
