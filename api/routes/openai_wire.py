"""Answer requests of OpenAI's clients in the types of the package openai (S-09)."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from langgraph_sdk.errors import NotFoundError
from openai.types import chat, responses

from toolweave.api.langgraph.requests import ignored_header
from toolweave.api.routes.client_runs import (
    NO_MESSAGES,
    Client,
    ClientRun,
    RunEvent,
    RunReader,
    Text,
    ToolCall,
    as_uuid,
    find_chat_assistant,
    graph_message,
    open_interrupts,
    start_run,
    thread_state,
    while_connected,
)
from toolweave.api.routes.openai_requests import ChatCompletionRequest, OpenAIRequest, ResponseRequest, error_body
from toolweave.errors import BadRequest

INTERRUPT_TOOL = "answer_interrupt"
INTERRUPT_PREFIX = "interrupt_"
MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
THREAD_NEEDED = "The graph waits for a person. Such runs need a thread: send metadata.thread_id, a UUID of your choice."
NO_THREAD_ID = "metadata.thread_id must be a UUID."
UNKNOWN_RESPONSE = "There is no response with this previous_response_id."
NOT_THE_LAST = "Only the last response of a conversation can be continued (previous_response_id)."
EXCLUSIVE = "previous_response_id, metadata.thread_id and store: false exclude each other."
NOT_OPEN = "These interrupts are not open on this thread: {}. Open: {}."


class Answer(RunReader):
    """What an OpenAI client gets of a run: its text, and at the end the calls of the client's tools."""

    def __init__(self, run: ClientRun) -> None:
        super().__init__(run.client_tools)
        self.text = ""
        self.run = run

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
        if self.interrupts and self.run.thread_id is None:
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
    if given is not None and (given := as_uuid(given)) is None:
        raise BadRequest(NO_THREAD_ID)
    return given


async def _client_run(
    body: ChatCompletionRequest | ResponseRequest, messages: list[dict[str, Any]], thread: str | None, client: Client
) -> ClientRun:
    others, answers = split_answers(messages)
    if not messages:
        raise BadRequest(NO_MESSAGES)
    if answers and thread is None:
        raise BadRequest(THREAD_NEEDED)
    assistant = await find_chat_assistant(client, body.model)
    waiting = open_interrupts(await thread_state(thread, client)) if answers and thread else {}
    if wrong := answers.keys() - waiting:
        raise BadRequest(NOT_OPEN.format(", ".join(sorted(wrong)), ", ".join(waiting) or "none"))
    tools = [tool.as_tool() for tool in body.tools or ()] if body.tool_choice != "none" else []
    return ClientRun(assistant, [graph_message(each) for each in others], thread, answers, tools)


async def answer_chat_completion(body: ChatCompletionRequest, request: Request, client: Client) -> Response:
    """Answer POST /v1/chat/completions."""
    thread = _thread_id(body)
    messages = [
        {name: each[name] for name in MESSAGE_FIELDS if name in each} | {"content": _content_parts(each.get("content"))}
        for each in (body.messages if thread is None else _new_messages(body.messages))
    ]
    return await _respond(CompletionWriter(body, await _client_run(body, messages, thread, client)), request, client)


async def _respond(writer: "CompletionWriter | ResponseWriter", request: Request, client: Client) -> Response:
    """Stream the run as it is, or run it to its end; a client that disconnects cancels it."""
    headers = ignored_header(writer.body.ignored_fields)

    async def begin() -> AsyncGenerator[str]:
        pieces = writer.pieces(await start_run(writer.run, client, writer))
        if not writer.body.stream:
            async with aclosing(pieces):
                async for _ in pieces:
                    pass
        return pieces

    pieces = await while_connected(request, begin())
    if writer.body.stream:
        headers["cache-control"] = "no-store"
        return StreamingResponse(writer.frames(pieces), media_type="text/event-stream", headers=headers)
    return Response(writer.whole().model_dump_json(exclude_unset=True), headers=headers, media_type="application/json")


class CompletionWriter(Answer):
    """Write a chat completion, whole or as a stream of chunks."""

    def __init__(self, body: ChatCompletionRequest, run: ClientRun) -> None:
        super().__init__(run)
        self.body = body
        self._head: dict[str, Any] = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    def whole(self) -> chat.ChatCompletion:
        """Return the completion."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason(), "logprobs": None}
        completion = {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage()}
        return chat.ChatCompletion.model_validate(completion)

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]

    def _finish_reason(self) -> str:
        return "tool_calls" if self.calls else self.cut_reason or "stop"

    def _usage(self) -> dict[str, int]:
        prompt, completion = self.input_tokens, self.output_tokens
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
INSTRUCTIONS_ID = "instructions"
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
IMAGE_PARTS = ("image_url", "input_image")


async def answer_response(body: ResponseRequest, request: Request, client: Client) -> Response:
    """Answer POST /v1/responses."""
    thread = _thread_id(body)
    if sum(map(bool, (thread, body.previous_response_id, body.store is False))) > 1:
        raise BadRequest(EXCLUSIVE)
    if body.previous_response_id is not None:
        thread = await _thread_of_response(body.previous_response_id, client)
    elif body.store is not False:
        thread = thread or str(uuid4())
    run = await _client_run(body, _input_messages(body), thread, client)
    return await _respond(ResponseWriter(body, run), request, client)


async def _thread_of_response(response_id: str, client: Client) -> str:
    """Return the thread of a response, which must be that of the thread's last successful run."""
    digits = response_id.removeprefix(RESPONSE_ID_PREFIX)
    thread, run = as_uuid(digits[:32]), as_uuid(digits[32:])
    try:
        runs = await client.runs.list(thread, limit=1, status="success") if thread and run else []
    except NotFoundError:
        runs = []
    if not runs:
        raise BadRequest(UNKNOWN_RESPONSE)
    if runs[0]["run_id"] != run:
        raise BadRequest(NOT_THE_LAST)
    return runs[0]["thread_id"]


def _input_messages(body: ResponseRequest) -> list[dict[str, Any]]:
    """Return the input as messages of a chat completion.

    Raises:
        BadRequest: an item is neither a message nor a function call nor its output.
    """
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    messages: list[dict[str, Any]] = []
    if body.instructions:
        # The id replaces the instructions of earlier requests.
        messages.append({"role": "system", "content": body.instructions, "id": INSTRUCTIONS_ID})
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
    """Return content of either endpoint in the format of chat completions.

    Raises:
        BadRequest: a part is neither a text, a refusal nor an image.
    """
    if content is None or isinstance(content, str):
        return content
    return [_content_part(part) for part in (content if isinstance(content, list) else [content])]


def _content_part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in TEXT_PARTS and isinstance(text := part.get("refusal" if kind == "refusal" else "text"), str):
        return {"type": "text", "text": text}
    if kind in IMAGE_PARTS:
        image = {"url": part["image_url"]} if isinstance(part.get("image_url"), str) else part.get("image_url")
        if isinstance(image, dict) and isinstance(image.get("url"), str):
            return {"type": "image_url", "image_url": image}
    raise BadRequest(f"Content parts of type {str(kind)[:100]!r} are not supported, or this one has no text or URL.")


class ResponseWriter(Answer):
    """Write a response, whole or as a stream of events."""

    def __init__(self, body: ResponseRequest, run: ClientRun) -> None:
        super().__init__(run)
        self.body = body
        self._thread = UUID(run.thread_id) if run.thread_id else uuid4()
        self._created = time.time()
        self._message_id = f"msg_{uuid4().hex}"
        self._number = 0

    def whole(self) -> responses.Response:
        """Return the response of the ended run."""
        usage = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        if self.cut_reason is None:
            return self._response("completed", output=self._output(), usage=usage)
        details = {"reason": "max_output_tokens" if self.cut_reason == "length" else "content_filter"}
        return self._response("incomplete", output=self._output(), usage=usage, incomplete_details=details)

    def _response(self, status: str, **more: Any) -> responses.Response:
        """Return the response; its id has the thread and the run, for `previous_response_id`."""
        run = UUID(self.run_id) if self.run_id else uuid4()
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
        message = [self._message("completed", [self._part(self.text)])] if self.text else []
        return message + [
            {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id, "status": "completed"}
            | {"name": call.name, "arguments": call.arguments}
            for call in self.calls
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
                    if self.text == piece:
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
        if text := self.text:
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
