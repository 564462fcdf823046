"""An MCP server with what the conformance suite's server scenarios ask for, built from our servers' own pieces.

The core server offers neither resources nor prompts, and no tools of these names: with it most scenarios would say
nothing. This one stands behind the same envelope middleware and the same guard of Host and Origin, so that a scenario
that passes here passes because they leave the protocol alone.
"""

import base64
import json
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message, PromptResult
from fastmcp.server.event_store import EventStore
from fastmcp.tools import Tool, ToolResult
from mcp.types import AudioContent, Completion, EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import AnyUrl
from starlette.types import ASGIApp

from toolweave.api.http_guard import AccessRules, HttpGuard
from toolweave.config.settings import Settings
from toolweave.servers.tool_server import EnvelopeMiddleware

PATH = "/mcp"
RETRY_MS = 200
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
        "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
WAV = base64.b64encode(
    bytes.fromhex("524946462400000057415645666d74201000000001000100401f0000401f0000010008006461746100000000")
).decode()
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
PLAIN = ["option1", "option2", "option3"]
ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": PLAIN},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def image() -> ImageContent:
    return ImageContent(type="image", data=PNG, mimeType="image/png")


def embedded(uri: str, mime_type: str, words: str) -> EmbeddedResource:
    resource = TextResourceContents(uri=AnyUrl(uri), mimeType=mime_type, text=words)
    return EmbeddedResource(type="resource", resource=resource)


async def test_simple_text() -> ToolResult:
    """Return a text."""
    return ToolResult(content=[text("This is a simple text response for testing.")])


async def test_image_content() -> ToolResult:
    """Return an image."""
    return ToolResult(content=[image()])


async def test_audio_content() -> ToolResult:
    """Return a sound."""
    return ToolResult(content=[AudioContent(type="audio", data=WAV, mimeType="audio/wav")])


async def test_embedded_resource() -> ToolResult:
    """Return a resource."""
    words = "This is an embedded resource content."
    return ToolResult(content=[embedded("test://embedded-resource", "text/plain", words)])


async def test_multiple_content_types() -> ToolResult:
    """Return a text, an image and a resource."""
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolResult(content=[text("Multiple content types test:"), image(), resource])


async def test_tool_with_logging(context: Context) -> ToolResult:
    """Log three times."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(words)
    return ToolResult(content=[text("Logged.")])


async def test_error_handling() -> ToolResult:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: Context) -> ToolResult:
    """Tell progress three times."""
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
    return ToolResult(content=[text("Done.")])


async def test_sampling(context: Context, prompt: str) -> ToolResult:
    """Ask the client's model."""
    reply = await context.sample(prompt, max_tokens=100)
    return ToolResult(content=[text(f"LLM response: {reply.text}")])


async def test_elicitation(context: Context, message: str) -> ToolResult:
    """Ask the user for two texts."""
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    return await ask_user(context, message, {"type": "object", "properties": fields, "required": list(fields)})


async def test_elicitation_sep1034_defaults(context: Context) -> ToolResult:
    """Ask the user with a default for every field."""
    return await ask_user(context, "Accept the defaults?", {"type": "object", "properties": DEFAULTS, "required": []})


async def test_elicitation_sep1330_enums(context: Context) -> ToolResult:
    """Ask the user to choose, in five forms."""
    return await ask_user(context, "Choose", {"type": "object", "properties": ENUMS, "required": []})


async def ask_user(context: Context, message: str, schema: dict[str, Any]) -> ToolResult:
    request = context.request_context
    answer = await context.session.elicit(message, schema, request.request_id if request else None)
    return ToolResult(content=[text(f"action={answer.action}, content={json.dumps(answer.content)}")])


async def test_reconnection(context: Context) -> ToolResult:
    """Close the call's stream, and answer on the one that the client opens instead."""
    await context.close_sse_stream()
    return ToolResult(content=[text("Reconnected.")])


async def json_schema_2020_12_tool(name: str = "") -> ToolResult:
    """Take what a schema of the 2020-12 draft describes."""
    return ToolResult(content=[text(name)])


TOOLS = (
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types),
    *(test_tool_with_logging, test_error_handling, test_tool_with_progress, test_sampling, test_reconnection),
    *(test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
)


def add_resources(server: FastMCP[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """Give a text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """Give an image."""
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002  the scenario names it so
        """Give what belongs to an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """Give what can be watched."""
        return "Watched."


def add_prompts(server: FastMCP[Any]) -> None:
    @server.prompt
    def test_simple_prompt() -> str:
        """Say something."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Say something with arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> PromptResult:  # noqa: N803  as above
        """Say something about a resource."""
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return PromptResult([Message(resource), Message("Please process the embedded resource above.")])

    @server.prompt
    def test_prompt_with_image() -> PromptResult:
        """Say something about an image."""
        return PromptResult([Message(image()), Message("Please analyze the image above.")])


def add_handlers(server: FastMCP[Any]) -> None:
    """Answer what FastMCP has no decorator for."""
    watched: set[str] = set()

    async def complete(_ref: object, _argument: object, _context: object) -> Completion:
        return Completion(values=[], total=0, hasMore=False)

    async def subscribe(uri: AnyUrl) -> None:
        watched.add(str(uri))

    async def unsubscribe(uri: AnyUrl) -> None:
        watched.remove(str(uri))

    protocol: Any = server._mcp_server
    protocol.completion()(complete)
    protocol.subscribe_resource()(subscribe)
    protocol.unsubscribe_resource()(unsubscribe)


def fixture_app(settings: Settings) -> tuple[ASGIApp, Any]:
    """Build the application, and the one whose lifespan has to run."""
    envelope = EnvelopeMiddleware()
    server: FastMCP[Any] = FastMCP(
        "fixture",
        lifespan=envelope.lifespan,
        middleware=[envelope],
        mask_error_details=True,
        # The suite wants its $defs back as they are.
        dereference_schemas=False,
    )
    for function in TOOLS:
        server.add_tool(Tool.from_function(function, output_schema=None))
    with_schema = Tool.from_function(json_schema_2020_12_tool, output_schema=None)
    server.add_tool(with_schema.model_copy(update={"parameters": SCHEMA_2020_12}))
    add_resources(server)
    add_prompts(server)
    add_handlers(server)
    app = server.http_app(path=PATH, event_store=EventStore(), retry_interval=RETRY_MS, host_origin_protection=False)
    return HttpGuard(app, AccessRules.from_settings(settings)), app
