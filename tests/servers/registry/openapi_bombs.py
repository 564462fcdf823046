"""OpenAPI documents of a few kilobytes that stand for endless work, by what multiplies it."""

from collections.abc import Callable
from typing import Any

from tests.servers.registry.openapi_documents import answer, body, document, operation, parameter, ref

Schemas = dict[str, Any]
METHODS = ("get", "put", "post", "delete", "patch")


def multiplying(levels: int, level: Callable[[list[dict[str, str]]], dict[str, Any]]) -> Schemas:
    """Make schemas S0, S1, …, each of `level` with ten references to the next."""
    schemas = {f"S{n}": level([ref(f"S{n + 1}")] * 10) for n in range(levels)}
    return {**schemas, f"S{levels}": {"type": "object", "properties": {"a": {"type": "string"}}}}


def chain(last: Any, kind: str, length: int = 48) -> Schemas:
    """Make components C0, C1, …, each a reference to the next; the end is `last`."""
    return {**{f"C{n}": ref(f"C{n + 1}", kind) for n in range(length)}, f"C{length}": last}


def named(references: list[dict[str, str]]) -> dict[str, Any]:
    """Make an object with a property for each reference."""
    return {"type": "object", "properties": {f"p{n}": one for n, one in enumerate(references)}}


def posted(schema: Any, schemas: Schemas, times: int = 1) -> dict[str, Any]:
    """Post a body of this schema, at so many paths."""
    raw = {"requestBody": body(schema), "responses": {}}
    return document({f"/x{n}": {"post": raw} for n in range(times)}, components={"schemas": schemas})


def shared(raw: dict[str, Any], around: dict[str, Any] | None = None, times: int = 400, **more: Any) -> dict[str, Any]:
    """Put one path item with five operations at so many paths."""
    components = {"pathItems": {"I": {**(around or {}), **dict.fromkeys(METHODS, raw)}}, **more}
    return document({f"/x{n}": ref("I", "pathItems") for n in range(times)}, components=components)


_WIDE = {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(20_000)}}
_DEEP = [{"type": "object", "properties": {"a": {"enum": [[n] * 30 for _ in range(900)]}}} for n in (1, 1)]

ONE_OPERATION: dict[str, dict[str, Any]] = {
    "one wide schema often": posted({"allOf": [ref("W")] * 2_000}, {"W": _WIDE}),
    "equal large values": posted({"allOf": [ref("A"), ref("B")] * 1_000}, {"A": _DEEP[0], "B": _DEEP[1]}),
    "properties behind chains": posted(named([ref("C0")] * 5_000), chain({"readOnly": True}, "schemas")),
    "a long pointer": posted(named([{"$ref": "#/" + "a/" * 5_000}] * 100), {}),
    "many schemas of one name": posted(
        {"items": named([ref(f"A{n}/x") for n in range(4_000)])},
        {f"A{n}": {"x": {"items": ref(f"A{n}/x")}} for n in range(4_000)},
    ),
}
"""Each has one operation whose references make too much of it."""

STILL_TOOLS: dict[str, dict[str, Any]] = {
    # The 5 kB that used a core for ever.
    "all_of": posted(ref("S0"), multiplying(12, lambda inner: {"allOf": inner})),
    "all_of or null": posted({"anyOf": [ref("S0"), {"type": "null"}]}, multiplying(12, lambda inner: {"allOf": inner})),
    "all_of with properties": posted(
        ref("S0"), multiplying(12, lambda inner: {"properties": {"b": {}}, "allOf": inner})
    ),
    "one_of": posted(ref("S0"), multiplying(12, lambda inner: {"oneOf": inner})),
    "items": posted(ref("S0"), multiplying(12, lambda inner: {"type": "array", "prefixItems": inner})),
    "properties": posted(ref("S0"), multiplying(12, named)),
    "all_of in an answer": document(
        {"/x": {"get": operation(responses=answer(ref("S0")))}},
        components={"schemas": multiplying(12, lambda inner: {"allOf": inner})},
    ),
    "all_of of itself": posted(ref("A"), {"A": {"properties": {"x": {}}, "allOf": [ref("A")] * 10}}),
}
"""Their references stay in the tool's schema, so that it stays small."""

_KEYS = {f"x-{n}": 1 for n in range(100_000)}

WHOLE: dict[str, dict[str, Any]] = {
    "keys": posted(ref("W"), {"W": {**_WIDE, **_KEYS}}, times=400),
    "path items": document(
        {f"/x{n}": ref("I", "pathItems") for n in range(50_000)}, components={"pathItems": {"I": _KEYS}}
    ),
    "parameters": shared(
        operation(), {"parameters": [ref("C0", "parameters")] * 500}, parameters=chain(parameter("q"), "parameters")
    ),
    "responses": shared(
        {"responses": {str(code): ref("C0", "responses") for code in range(200, 300)}},
        responses=chain({"description": "x"}, "responses"),
    ),
    "media types": shared(
        operation(responses={"200": {"content": {f"application/x{n}+json": {} for n in range(20_000)}}})
    ),
    "security": shared(
        operation(security=[{f"C{n}": [] for n in range(49)}] * 50),
        securitySchemes=chain({"type": "mutualTLS"}, "securitySchemes"),
    ),
    "scopes": shared(
        operation(security=[{"O": []}]),
        securitySchemes={
            "O": {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": "/t", "scopes": {f"s{n}": "" for n in range(9_000)}}},
            }
        },
    ),
    "servers": shared(
        operation(
            servers=[{"url": "https://a.example/{v0}", "variables": {f"v{n}": {"default": "a"} for n in range(9_000)}}]
        )
    ),
    "required": posted(
        ref("R"), {"R": {"properties": {"a": {}}, "required": [f"r{n}" for n in range(50_000)]}}, times=2_000
    ),
    "texts": shared(operation(summary="a B" * 50_000, description="x" * 1_000_000)),
    "placeholders": document(
        {f"/{n}/" + "".join(f"{{p{m}}}" for m in range(300)): {"get": operation()} for n in range(1_500)}
    ),
}
"""Each of their many operations is readable alone; together they are too much."""
