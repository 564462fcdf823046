"""Documents put together at random: whatever they say, an import answers, and what it makes holds together."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_pydantic import OpenAPI

from tests.servers.registry.openapi_documents import imported
from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi_export import export_openapi
from toolweave.servers.registry.openapi_import import Imported
from toolweave.tool_config import ToolConfig

QUICK = settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))

NAMES = st.sampled_from(
    ["id", "name", "a b", "X-Y", "__a__", "", "日本", "$ref", "body", "a.b", "x" * 70, "\r\n", "'\"\\", "{id}"]
)
POINTERS = st.sampled_from(
    [
        *(
            "#/components/schemas/A",
            "#/components/schemas/B",
            "#/components/schemas/C",
            "#/components/parameters/P",
            "#",
            "#/",
        ),
        *(
            "#/components/schemas/None",
            "http://a.example/x",
            "file:///etc/passwd",
            "",
            "#/paths/~1a~1{id}/get",
            "#/components",
        ),
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), NAMES
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null", "file"])


def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Give what belongs there, now and then anything else."""
    return st.integers(0, 19).flatmap(lambda roll: ANYTHING if roll == 0 else value)


def parts(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return maybe(st.fixed_dictionaries({}, optional={name: maybe(member) for name, member in members.items()}))


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return parts(
        type=TYPES | st.lists(TYPES, max_size=2),
        properties=st.dictionaries(NAMES, inner, max_size=3),
        required=st.lists(NAMES, max_size=2),
        items=inner,
        allOf=st.lists(inner, max_size=2),
        anyOf=st.lists(inner, max_size=2),
        additionalProperties=inner | st.booleans(),
        enum=st.lists(SCALARS, max_size=3),
        nullable=st.booleans(),
        readOnly=st.booleans(),
        writeOnly=st.booleans(),
        default=SCALARS,
        example=SCALARS,
        description=NAMES,
        minimum=st.integers(),
        exclusiveMinimum=st.booleans() | st.integers(),
        minLength=st.integers(-1, 3),
        pattern=st.sampled_from(["^a+$", "(", "[a"]),
    )


REFERENCES = st.fixed_dictionaries({"$ref": POINTERS}, optional={"description": NAMES, "nullable": st.booleans()})
SCHEMAS = st.recursive(REFERENCES | _schemas(st.just({"type": "string"})) | st.booleans(), _schemas, max_leaves=6)
CONTENT = st.dictionaries(
    st.sampled_from(
        ["application/json", "application/x+json", "text/plain", "*/*", "multipart/form-data", "a\r\nb+json"]
    ),
    parts(schema=SCHEMAS, example=SCALARS),
    max_size=2,
)
PARAMETERS = st.one_of(
    REFERENCES,
    maybe(
        st.fixed_dictionaries(
            {"name": maybe(NAMES), "in": maybe(st.sampled_from(["path", "query", "header", "cookie"]))},
            optional={
                "required": maybe(st.booleans()),
                "schema": SCHEMAS,
                "content": CONTENT,
                "style": maybe(st.sampled_from(["form", "simple", "deepObject", "pipeDelimited", "matrix"])),
                "explode": maybe(st.booleans()),
                "description": NAMES,
                "allowReserved": st.booleans(),
            },
        )
    ),
)
SECURITY = maybe(
    st.lists(st.dictionaries(st.sampled_from(["key", "bearer", "odd", "none"]), st.just([]), max_size=2), max_size=2)
)
SERVERS = maybe(
    st.lists(
        parts(
            url=st.sampled_from(["https://a.example/{v}", "/v1", "javascript:x", "//", "http://[", ""]),
            variables=st.dictionaries(st.just("v"), parts(default=NAMES)),
        ),
        max_size=2,
    )
)
OWN_WORDS = parts(
    name=NAMES,
    input_schema=SCHEMAS,
    timeout_s=SCALARS,
    headers=st.dictionaries(NAMES, NAMES, max_size=2),
    field_mappings=ANYTHING,
)
OPERATIONS = parts(
    operationId=NAMES | st.sampled_from(["export", "get-it", "getIt"]),
    summary=NAMES,
    description=NAMES,
    deprecated=st.booleans(),
    tags=st.lists(NAMES, max_size=2),
    parameters=st.lists(PARAMETERS, max_size=4),
    requestBody=REFERENCES | parts(required=st.booleans(), content=CONTENT),
    responses=st.dictionaries(
        st.sampled_from(["200", "204", "2XX", "default"]),
        REFERENCES | parts(content=CONTENT, description=NAMES),
        max_size=2,
    ),
    security=SECURITY,
    servers=SERVERS,
    **{"x-toolweave": OWN_WORDS},
)
PATHS = st.dictionaries(
    st.sampled_from(["/a/{id}", "/b", "/c/{a b}/{id}", "", "/d/..", "/e?x", "x-f", "/g#h", "/{", "/i/{}", "j"]),
    REFERENCES
    | parts(
        get=OPERATIONS,
        post=OPERATIONS,
        delete=OPERATIONS,
        options=OPERATIONS,
        parameters=st.lists(PARAMETERS, max_size=2),
        servers=SERVERS,
    ),
    max_size=3,
)
DOCUMENTS = st.fixed_dictionaries(
    {"openapi": st.sampled_from(["3.0.0", "3.1.0"]), "paths": maybe(PATHS)},
    optional={
        "info": parts(title=NAMES),
        "servers": st.just([{"url": "https://api.example.com"}]),
        "security": SECURITY,
        "components": parts(
            schemas=st.fixed_dictionaries(dict.fromkeys("ABC", SCHEMAS)),
            parameters=st.fixed_dictionaries({"P": PARAMETERS}),
            securitySchemes=st.fixed_dictionaries(
                {
                    "key": parts(
                        type=st.just("apiKey"), name=NAMES, **{"in": st.sampled_from(["query", "header", "cookie"])}
                    ),
                    "bearer": parts(type=st.just("http"), scheme=st.sampled_from(["bearer", "basic", "digest"])),
                    "odd": REFERENCES | ANYTHING,
                }
            ),
        ),
    },
)


def _import(document: Any) -> Imported | None:
    try:
        return imported(document)
    except DocumentRefused:
        return None


@QUICK
@given(DOCUMENTS)
def test_an_import_answers_whatever_a_document_says(document: Any) -> None:
    found = _import(json.dumps(document))
    if found is None:
        assert not isinstance(document["paths"], dict)
        return
    for tool in found.tools:
        # Schemas are taken as well-formed while importing: here they are looked at.
        assert ToolConfig.model_validate(tool.model_dump(mode="json")) == tool
    for skipped in found.skipped:
        assert skipped.reason
        assert f"{skipped.operation}{skipped.reason}".isprintable()
    assert all(warning.isprintable() for warning in found.warnings)
    assert len({tool.tool_id for tool in found.tools}) == len(found.tools)


@QUICK
@given(DOCUMENTS)
def test_what_was_imported_is_exported_and_imported_again(document: Any) -> None:
    tools = {tool.tool_id: tool for tool in getattr(_import(document), "tools", [])}
    exported = export_openapi(tools.values())
    OpenAPI.model_validate(exported)
    again = imported(json.dumps(exported))
    assert again.skipped == []
    assert {tool.tool_id: tool for tool in again.tools} == tools


@QUICK
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_or_refused(content: str | bytes) -> None:
    assert _import(content) is None


@QUICK
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                ": ",
                "- ",
                "\n",
                "  ",
                "&a ",
                "*a",
                "<<",
                "{",
                "}",
                "[",
                "]",
                ",",
                "!",
                "!!str ",
                "'",
                '"',
                "|\n",
                "? ",
                "# ",
                "%",
                "1",
                "~",
                "\t",
            ]
        ),
        max_size=30,
    )
)
def test_any_yaml_is_read_or_refused(pieces: list[str]) -> None:
    assert getattr(_import("openapi: 3.1.0\nx: " + "".join(pieces)), "tools", []) == []
