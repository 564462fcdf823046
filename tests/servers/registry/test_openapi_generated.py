"""Documents put together at random: whatever they say, an import answers, and what it makes holds together."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.registry.openapi_documents import imported
from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi.importing import ImportResult
from toolweave.tool_config import ToolConfig

QUICK = settings(suppress_health_check=list(HealthCheck))

NAMES = st.sampled_from(
    ["id", "name", "a b", "X-Y", "__a__", "", "日本", "$ref", "body", "a.b", "x" * 70, "\r\n", "'\"\\", "{id}"]
)
BAD_POINTERS = st.sampled_from(
    [
        *(
            "#/components/parameters/P",
            "#",
            "#/",
            "#/components/schemas/None",
            "http://a.example/x",
            "file:///etc/passwd",
        ),
        *("", "#/paths/~1a~1{id}/get", "#/components", "#anchor"),
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), NAMES
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])


def seldom(this: st.SearchStrategy[Any], that: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 49).flatmap(lambda roll: this if roll == 17 else that)


def some(always: dict[str, Any] | None = None, /, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Give an object with some of these members; now and then one of them is anything else."""
    usual = st.fixed_dictionaries(always or {}, optional=optional)
    spoiled = st.fixed_dictionaries(always or {}, optional=dict.fromkeys(optional, ANYTHING))
    return seldom(ANYTHING, seldom(spoiled, usual))


def referring(*names: str) -> st.SearchStrategy[Any]:
    pointers = seldom(BAD_POINTERS, st.sampled_from([f"#/components/{name}" for name in names]))
    return st.fixed_dictionaries({"$ref": pointers}, optional={"description": NAMES, "nullable": st.booleans()})


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = {"properties": st.dictionaries(NAMES, inner, max_size=3), "required": st.lists(NAMES, max_size=2)}
    marks = {name: st.booleans() for name in ("nullable", "readOnly", "writeOnly", "deprecated")}
    objects = some({"type": st.just("object")}, additionalProperties=inner | st.booleans(), **fields, **marks)
    texts = some({"type": st.just("string")}, enum=st.lists(SCALARS, min_size=1, max_size=3), example=SCALARS, **marks)
    numbers = some(
        {"type": TYPES}, minimum=st.integers(0, 3), exclusiveMinimum=st.booleans() | st.integers(0, 3), default=SCALARS
    )
    lists = some({"type": st.just("array")}, items=inner, minItems=st.integers(-1, 2), **marks)
    joined = [
        some({word: st.lists(inner, min_size=1, max_size=2)}, description=NAMES) for word in ("allOf", "anyOf", "oneOf")
    ]
    return st.one_of(objects, texts, numbers, lists, *joined)


SCHEMA_REFERENCES = referring("schemas/A", "schemas/B", "schemas/C")
SCHEMAS = st.recursive(SCHEMA_REFERENCES | _schemas(st.just({"type": "string"})), _schemas, max_leaves=5)
CONTENT = st.dictionaries(
    seldom(
        st.sampled_from(["text/plain", "a\r\nb+json"]),
        st.sampled_from(["application/json", "application/x+json", "*/*"]),
    ),
    some({"schema": SCHEMAS}, example=SCALARS),
    min_size=1,
    max_size=2,
)
DECLARED = st.one_of(
    some(
        {"name": NAMES, "in": st.sampled_from(["path", "query", "header", "cookie"]), "schema": SCHEMAS},
        required=st.booleans(),
        style=st.sampled_from(["form", "simple", "deepObject", "pipeDelimited", "matrix"]),
        explode=st.booleans(),
        description=NAMES,
        allowReserved=st.booleans(),
    ),
    some({"name": NAMES, "in": st.just("query"), "content": CONTENT}),
)
PARAMETERS = referring("parameters/P") | DECLARED
REQUIREMENTS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["key", "bearer", "odd", "none"]), st.just([]), max_size=2
)
SECURITY = seldom(st.lists(REQUIREMENTS, max_size=2), st.just([{"bearer": []}]))
SERVER = some(
    {"url": st.sampled_from(["https://a.example/{v}", "/v1", "javascript:x", "//", "http://[", ""])},
    variables=st.dictionaries(st.just("v"), some(default=NAMES)),
)
SERVERS = seldom(st.lists(SERVER, max_size=2), st.just([{"url": "https://other.example/v1"}]))
OPERATIONS = some(
    {
        "responses": st.dictionaries(
            st.sampled_from(["200", "2XX"]), referring("responses/R") | some(content=CONTENT), max_size=2
        )
    },
    operationId=NAMES | st.sampled_from(["export", "get-it", "getIt"]),
    summary=NAMES,
    deprecated=st.booleans(),
    parameters=st.lists(PARAMETERS, max_size=3),
    requestBody=referring("requestBodies/B") | some({"content": CONTENT}, required=st.booleans()),
    security=SECURITY,
    servers=SERVERS,
)
GOOD_PATHS = st.sampled_from(["/a/{id}", "/b", "/c/{a b}/{id}", "/g#h", "/i/{name}:run"])
BAD_PATHS = st.sampled_from(["", "/d/..", "/e?x", "x-f", "/{", "/i/{}", "j"])
PATH_ITEM = some(
    get=OPERATIONS, post=OPERATIONS, put=OPERATIONS, delete=OPERATIONS, parameters=st.lists(PARAMETERS, max_size=2)
)
COMPONENTS = some(
    {
        "schemas": st.fixed_dictionaries(dict.fromkeys("ABC", SCHEMAS)),
        "parameters": st.fixed_dictionaries({"P": DECLARED}),
        "requestBodies": st.fixed_dictionaries({"B": some({"content": CONTENT}, required=st.booleans())}),
        "responses": st.fixed_dictionaries({"R": some(content=CONTENT)}),
        "securitySchemes": st.fixed_dictionaries(
            {
                "key": some({"type": st.just("apiKey"), "name": NAMES, "in": st.sampled_from(["query", "header"])}),
                "bearer": some({"type": st.just("http"), "scheme": st.sampled_from(["bearer", "basic"])}),
                "odd": SCHEMA_REFERENCES | ANYTHING,
            }
        ),
    }
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "openapi": st.sampled_from(["3.0.0", "3.1.0"]),
        "paths": seldom(ANYTHING, st.dictionaries(seldom(BAD_PATHS, GOOD_PATHS), PATH_ITEM, min_size=1, max_size=2)),
        "components": COMPONENTS,
        "servers": st.just([{"url": "https://api.example.com"}]),
    },
    optional={"info": some(title=NAMES), "security": SECURITY},
)


def _import(document: Any) -> ImportResult | None:
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
        assert skipped["reason"]
        assert f"{skipped['operation']}{skipped['reason']}".isprintable()
    assert all(warning.isprintable() for warning in found.warnings)
    assert len({tool.tool_id for tool in found.tools}) == len(found.tools)


PIECES = ["a", ": ", "- ", "\n", "  ", "&a ", "*a", "<<", "!", "!!str ", "|\n", "? ", "# ", *"{}[],'\"%1~\t"]


@QUICK
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_or_refused(content: str | bytes) -> None:
    assert _import(content) is None


@QUICK
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_yaml_is_read_or_refused(pieces: list[str]) -> None:
    assert getattr(_import("openapi: 3.1.0\nx: " + "".join(pieces)), "tools", []) == []
