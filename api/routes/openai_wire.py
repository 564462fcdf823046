"""Answer requests of OpenAI's clients in the types of the package openai (S-09)."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from openai.types import chat, responses

from toolweave.api.langgraph.requests import ignored_header
from toolweave.api.request_bodies import run_until_first, wait_for_disconnect
from toolweave.api.routes.client_runs import (
    ClientRun,
    RunEvent,
    RunReader,
    Text,
    ToolCall,
    as_uuid,
    find_chat_assistant,
    graph_messages,
    start_run,
)
from toolweave.api.routes.openai_requests import ChatCompletionRequest, OpenAIRequest, ResponseRequest, error_body
from toolweave.errors import BadRequest

INTERRUPT_TOOL = "answer_interrupt"
INTERRUPT_PREFIX = "interrupt_"
MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
CLIENT_CLOSED_REQUEST = 499
THREAD_NEEDED = "The graph waits for a person. Such runs need a thread: send metadata.thread_id, a UUID of your choice."
NO_THREAD_ID = "metadata.thread_id must be a UUID."
UNKNOWN_RESPONSE = "There is no response with this previous_response_id."
NOT_THE_LAST = "Only the last response of a conversation can be continued (previous_response_id)."


class Answer(RunReader):
    """What an OpenAI client gets of a run: its text, and at the end the calls of the client's tools."""

    def __init__(self, run: ClientRun) -> None:
        super().__init__(run.client_tools)
        self.text = ""
        self._run = run

    async def pieces(self, events: AsyncGenerator[RunEvent]) -> AsyncGenerator[str]:
        """Yield the pieces of the text.

        Raises:
            HTTPException: the run failed, or waits for a person although it has no thread.
        """
        last_message = ""
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Text):
                    is_next = bool(self.text) and event.message_id != last_message
                    piece = f"\n\n{event.text}" if is_next else event.text
                    last_message = event.message_id
                    self.text += piece
                    yield piece
        if self.interrupts and self._run.thread_id is None:
            raise HTTPException(400, THREAD_NEEDED)

    @property
    def calls(self) -> list[ToolCall]:
        """Return the client's calls, and each interrupt as a call of `answer_interrupt`."""
        interrupts = [
            ToolCall("", INTERRUPT_PREFIX + each["id"], INTERRUPT_TOOL, json.dumps({"interrupt": each["value"]}))
            for each in self.interrupts
        ]
        return [*self.client_calls.values(), *interrupts]

    @property
    def cut_reason(self) -> str | None:
        """Return "length" or "content_filter" if the model's answer is incomplete."""
        return self.status if self.status in ("length", "content_filter") else None


def split_answers(messages: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Split off the results of `answer_interrupt`: return the other messages, and the answers by interrupt id."""
    answers: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    for message in messages:
        call_id = str(message.get("tool_call_id") or "")
        if call_id.startswith(INTERRUPT_PREFIX):
            answers[call_id.removeprefix(INTERRUPT_PREFIX)] = _json_or_text(message.get("content"))
        else:
            others.append(message)
    return others, answers


def _json_or_text(content: Any) -> Any:
    try:
        return json.loads(content)
    except (ValueError, TypeError):
        return content


def _new_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages after the last one of the assistant: a thread has the earlier ones."""
    places = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    return messages[places[-1] + 1 :] if places else messages


def _thread_id(body: OpenAIRequest) -> str | None:
    given = (body.metadata or {}).get("thread_id")
    if given is not None and as_uuid(str(given)) is None:
        raise BadRequest(NO_THREAD_ID)
    return None if given is None else str(given)


async def _client_run(
    body: OpenAIRequest,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    thread: str | None,
    client: LangGraphClient,
) -> ClientRun:
    others, answers = split_answers(messages)
    if answers and thread is None:
        raise BadRequest(THREAD_NEEDED)
    return ClientRun(
        await find_chat_assistant(client, body.model),
        graph_messages([{name: each[name] for name in MESSAGE_FIELDS if name in each} for each in others]),
        thread,
        answers,
        [] if body.tool_choice == "none" else tools,
    )


async def answer_chat_completion(body: ChatCompletionRequest, request: Request, client: LangGraphClient) -> Response:
    """Answer POST /v1/chat/completions."""
    thread = _thread_id(body)
    messages = body.messages if thread is None else _new_messages(body.messages)
    tools = [tool.function.as_tool() for tool in body.tools or ()]
    run = await _client_run(body, messages, tools, thread, client)
    answer = Answer(run)
    return await _respond(run, CompletionWriter(body, answer), answer, request, client)


async def _respond(
    run: ClientRun,
    writer: "CompletionWriter | ResponseWriter",
    answer: Answer,
    request: Request,
    client: LangGraphClient,
) -> Response:
    """Stream the run as it is, or run it to its end; a client that disconnects cancels it."""
    headers = ignored_header(writer.body.ignored_fields)
    if writer.body.stream:
        frames = writer.frames(answer.pieces(await start_run(run, client, answer)))
        headers["cache-control"] = "no-store"
        return StreamingResponse(frames, media_type="text/event-stream", headers=headers)

    async def read() -> None:
        async with aclosing(answer.pieces(await start_run(run, client, answer))) as pieces:
            async for _ in pieces:
                pass

    async with run_until_first(read(), wait_for_disconnect(request.receive)) as (reading, _):
        if not reading.done():
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        reading.result()
    return Response(writer.whole().model_dump_json(exclude_unset=True), headers=headers, media_type="application/json")


class CompletionWriter:
    """Write a chat completion, whole or as a stream of chunks."""

    def __init__(self, body: ChatCompletionRequest, answer: Answer) -> None:
        self.body = body
        self._answer = answer
        self._head: dict[str, Any] = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    def whole(self) -> chat.ChatCompletion:
        """Return the completion."""
        message: dict[str, Any] = {"role": "assistant", "content": self._answer.text or None}
        if self._answer.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason(), "logprobs": None}
        completion = {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage()}
        return chat.ChatCompletion.model_validate(completion)

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._answer.calls
        ]

    def _finish_reason(self) -> str:
        return "tool_calls" if self._answer.calls else self._answer.cut_reason or "stop"

    def _usage(self) -> dict[str, int]:
        prompt, completion = self._answer.input_tokens, self._answer.output_tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    async def frames(self, pieces: AsyncGenerator[str]) -> AsyncIterator[str]:
        """Yield the frames: text, calls, finish reason, usage on request, [DONE]; a failure is an error object."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield self._chunk({"content": piece})
        except HTTPException as failed:
            yield f"data: {json.dumps(error_body(failed.status_code, failed.detail))}\n\n"
            return
        for index, call in enumerate(self._calls()):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, self._finish_reason())
        if (self.body.stream_options or {}).get("include_usage"):
            yield self._frame(choices=[], usage=self._usage())
        yield "data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        return self._frame(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def _frame(self, **fields: Any) -> str:
        chunk = {**self._head, "object": "chat.completion.chunk", **fields}
        return f"data: {chat.ChatCompletionChunk.model_validate(chunk).model_dump_json(exclude_unset=True)}\n\n"


RESPONSE_ID_PREFIX = "resp_"
_TEXT_PARTS = {"input_text", "output_text"}


async def answer_response(body: ResponseRequest, request: Request, client: LangGraphClient) -> Response:
    """Answer POST /v1/responses."""
    messages = _input_messages(body)
    previous = body.previous_response_id
    if previous is not None:
        thread: str | None = await _thread_of_response(previous, client)
    else:
        thread = _thread_id(body) or (str(uuid4()) if body.store in (True, None) else None)
    tools = [tool.as_tool() for tool in body.tools or ()]
    run = await _client_run(body, messages, tools, thread, client)
    answer = Answer(run)
    return await _respond(run, ResponseWriter(body, answer, thread), answer, request, client)


async def _thread_of_response(response_id: str, client: LangGraphClient) -> str:
    """Return the thread of a response, which must be the thread's last one."""
    digits = response_id.removeprefix(RESPONSE_ID_PREFIX)
    thread, run = as_uuid(digits[:32]), as_uuid(digits[32:])
    try:
        runs = await client.runs.list(str(thread), limit=1) if thread and run else []
    except NotFoundError:
        runs = []
    if not runs:
        raise BadRequest(UNKNOWN_RESPONSE)
    if runs[0]["run_id"] != str(run):
        raise BadRequest(NOT_THE_LAST)
    return str(thread)


def _input_messages(body: ResponseRequest) -> list[dict[str, Any]]:
    """Return the input as messages of a chat completion.

    Raises:
        BadRequest: an item is neither a message nor a function call nor its output.
    """
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    for item in items:
        match item.get("type", "message"):
            case "message":
                messages.append({"role": item.get("role"), "content": _content_parts(item.get("content"))})
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                call = {"id": item.get("call_id"), "type": "function", "function": function}
                if messages and messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            case "function_call_output":
                output = _content_parts(item.get("output"))
                messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
            case "reasoning":
                pass
            case other:
                raise BadRequest(f"Input items of type {str(other)[:100]!r} are not supported.")
    return messages


def _content_parts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_content_part(part) if isinstance(part, dict) else part for part in content]


def _content_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") in _TEXT_PARTS:
        return {"type": "text", "text": part.get("text")}
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    raise BadRequest(f"Content parts of type {str(part.get('type'))[:100]!r} are not supported.")


class ResponseWriter:
    """Write a response, whole or as a stream of events."""

    def __init__(self, body: ResponseRequest, answer: Answer, thread: str | None) -> None:
        self.body = body
        self._answer = answer
        self._thread = UUID(thread) if thread else uuid4()
        self._created = time.time()
        self._message_id = f"msg_{uuid4().hex}"
        self._number = 0

    def whole(self) -> responses.Response:
        """Return the response of the ended run."""
        answer = self._answer
        usage = {
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        if answer.cut_reason is None:
            return self._response("completed", output=self._output(), usage=usage)
        details = {"reason": "max_output_tokens" if answer.cut_reason == "length" else "content_filter"}
        return self._response("incomplete", output=self._output(), usage=usage, incomplete_details=details)

    def _response(self, status: str, **more: Any) -> responses.Response:
        """Return the response; its id has the thread and the run, for `previous_response_id`."""
        run = UUID(self._answer.run_id) if self._answer.run_id else uuid4()
        fields = {
            "id": f"{RESPONSE_ID_PREFIX}{self._thread.hex}{run.hex}",
            "created_at": self._created,
            "object": "response",
            "status": status,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            **self.body.model_dump(include={"model", "instructions", "metadata", "previous_response_id"}),
        }
        return responses.Response.model_validate(fields | more)

    def _output(self) -> list[dict[str, Any]]:
        """Return the message, if there is text, and the calls."""
        message = [self._message("completed", [self._part(self._answer.text)])] if self._answer.text else []
        return message + [
            {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id, "status": "completed"}
            | {"name": call.name, "arguments": call.arguments}
            for call in self._answer.calls
        ]

    def _message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self._message_id, "type": "message", "role": "assistant", "status": status, "content": content}

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": []}

    async def frames(self, pieces: AsyncGenerator[str]) -> AsyncIterator[str]:
        """Yield the frames of the events; a failure is the event response.failed."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))
        place: dict[str, Any] = {"item_id": self._message_id, "output_index": 0, "content_index": 0}
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    if self._answer.text == piece:
                        yield self._event(
                            "response.output_item.added", output_index=0, item=self._message("in_progress", [])
                        )
                        yield self._event("response.content_part.added", **place, part=self._part(""))
                    yield self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        except HTTPException as failed:
            error = {"code": "server_error", "message": str(failed.detail)}
            yield self._event("response.failed", response=self._response("failed", error=error))
            return
        for frame in self._last_frames(place):
            yield frame

    def _last_frames(self, place: Mapping[str, Any]) -> Iterator[str]:
        output = self._output()
        if text := self._answer.text:
            yield self._event("response.output_text.done", **place, text=text, logprobs=[])
            yield self._event("response.content_part.done", **place, part=self._part(text))
            yield self._event("response.output_item.done", output_index=0, item=output[0])
        for index, item in enumerate(output):
            if item["type"] == "function_call":
                at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
                begun = {**item, "arguments": "", "status": "in_progress"}
                called: dict[str, Any] = {"name": item["name"], "arguments": item["arguments"]}
                yield self._event("response.output_item.added", output_index=index, item=begun)
                yield self._event("response.function_call_arguments.delta", **at, delta=item["arguments"])
                yield self._event("response.function_call_arguments.done", **at, **called)
                yield self._event("response.output_item.done", output_index=index, item=item)
        whole = self.whole()
        yield self._event(f"response.{whole.status}", response=whole)

    def _event(self, kind: str, response: responses.Response | None = None, **fields: Any) -> str:
        """Return the frame of an event."""
        if response is not None:
            fields["response"] = response.model_dump(mode="json", exclude_unset=True)
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
