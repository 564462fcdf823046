"""Read requests of OpenAI's clients, and write refusals in OpenAI's form (S-09)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import json_response
from toolweave.api.routes.client_runs import NO_ASSISTANT
from toolweave.runtime.codec import loads

PREFIX = "/v1/"
ERROR_KINDS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


class FunctionDefinition(BaseModel):
    """A function of the client."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None

    def as_tool(self) -> dict[str, Any]:
        """Return the function as a tool in the format of chat completions."""
        function = {
            "name": self.name,
            "description": self.description or "",
            "parameters": self.parameters or {"type": "object", "properties": {}},
        }
        return {"type": "function", "function": function}


class FunctionTool(BaseModel):
    """A tool in the format of chat completions."""

    type: Literal["function"]
    function: FunctionDefinition

    def as_tool(self) -> dict[str, Any]:
        """Return the tool as it is sent to the graph."""
        return self.function.as_tool()


class ResponseFunctionTool(FunctionDefinition):
    """A tool in the format of responses."""

    type: Literal["function"]


class OpenAIRequest(BaseModel):
    """The fields that both endpoints read; others have no effect and are named in `x-ignored-fields`."""

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=200)]
    stream: bool | None = False
    metadata: dict[str, str] | None = None
    tool_choice: Any = None

    @property
    def ignored_fields(self) -> list[str]:
        """Name the fields that have no effect."""
        choice = ["tool_choice"] if self.tool_choice not in (None, "auto", "none") else []
        return [*(self.model_extra or {}), *choice]


class ChatCompletionRequest(OpenAIRequest):
    """The fields of a chat completion that are read."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream_options: dict[str, Any] | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    n: Literal[1] | None = None


class ResponseRequest(OpenAIRequest):
    """The fields of a response that are read."""

    input: str | Annotated[list[dict[str, Any]], Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = True
    tools: Annotated[list[ResponseFunctionTool], Field(max_length=128)] | None = None
    background: Literal[False] | None = None
    conversation: None = None


class OpenAIErrors:
    """ASGI middleware: give refusals of the paths under /v1/ the form of OpenAI's errors; 422 becomes 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and rewrite the body of a refusal."""
        if scope["type"] != "http" or not scope["path"].removeprefix(scope.get("root_path", "")).startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def rewrite(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _error_response(start, body)(scope, receive, send)

        await self._app(scope, receive, rewrite)


def _error_response(start: Message, body: bytes) -> Response:
    try:
        answer = loads(body)
    except ValueError:
        answer = {}
    detail = answer.get("detail") if isinstance(answer, dict) else None
    status = 400 if start["status"] == 422 else start["status"]
    headers = {k.decode(): v.decode("latin-1") for k, v in start["headers"] if not k.lower().startswith(b"content-")}
    # The package openai would repeat the whole run.
    return json_response(error_body(status, detail), status, headers | {"x-should-retry": "false"})


def error_body(status: int, detail: Any) -> dict[str, Any]:
    """Return an error in OpenAI's form; `detail` is a text or pydantic's list of problems."""
    param = None
    if isinstance(detail, list):
        param = ".".join(map(str, detail[0]["loc"][1:])) or None
        detail = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in detail)
    kind, code = ERROR_KINDS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    if status == 404 and str(detail).startswith(NO_ASSISTANT.partition("{")[0]):
        code = "model_not_found"
    return {"error": {"message": str(detail or "The request failed."), "type": kind, "param": param, "code": code}}
