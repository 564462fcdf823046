"""How parameters become fields of a flat input, and where the fields lead."""

from typing import Any

import pytest

from tests.servers.registry.openapi_documents import (
    body,
    document,
    import_of,
    operation,
    parameter,
    places,
    reason_of,
    request,
    the_tool,
    tool_of,
)


def test_path_query_and_header_parameters_become_fields_with_their_descriptions() -> None:
    parameters = [
        parameter("id", "path", {"type": "integer", "minimum": 1}, required=True, description="Its number."),
        parameter("sort", "query", {"type": "string", "enum": ["up", "down"], "default": "up"}),
        parameter("since", "query", {"type": "string", "format": "date"}, deprecated=True, example="2024-01-01"),
        parameter("X-Request-Id", "header", required=True),
    ]
    tool = tool_of(operation(parameters=parameters), path="/things/{id}")
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1, "description": "Its number."},
            "sort": {"type": "string", "enum": ["up", "down"], "default": "up"},
            "since": {"type": "string", "format": "date", "deprecated": True, "examples": ["2024-01-01"]},
            "x_request_id": {"type": "string"},
        },
        "required": ["id", "x_request_id"],
    }
    assert places(tool) == {"x_request_id": "header.X-Request-Id"}
    built = request(tool, id=5, x_request_id="abc", sort="down")
    assert built.url == "https://api.example.com/v1/things/5"
    assert (built.query, built.headers) == ({"sort": "down"}, {"X-Request-Id": "abc"})


def test_an_operations_parameter_wins_over_that_of_its_path() -> None:
    own = [parameter("limit", schema={"type": "integer"}), parameter("x-a", "header", required=True)]
    path_item = {
        "parameters": [parameter("limit", schema={"type": "string"}), parameter("X-A", "header"), parameter("page")],
        "get": operation(parameters=own),
    }
    tool = the_tool(document({"/things": path_item}))
    assert {name: one["type"] for name, one in tool.input_fields.items()} == {
        "limit": "integer",
        "page": "string",
        "x_a": "string",
    }
    assert tool.required_fields == ("x_a",)


def test_parameters_of_one_name_in_several_places_and_queries_beside_a_body_are_mapped() -> None:
    parameters = [parameter("id", "header"), parameter("id"), parameter("id", "path", required=True), parameter("dry")]
    properties = {"id": {"type": "integer"}, "id_query": {}}
    raw = operation(parameters=parameters, requestBody=body({"type": "object", "properties": properties}))
    tool = tool_of(raw, method="put", path="/things/{id}")
    assert places(tool) == {
        "id_query": "query.id",
        "dry": "query.dry",
        "id_header": "header.id",
        "id_body": "body.$.id",
        "id_query_body": "body.$.id_query",
    }
    built = request(tool, id="p", id_query="q", dry="d", id_header="h", id_body=4, id_query_body=5)
    assert built.url.endswith("/things/p")
    assert built.query == {"id": "q", "dry": "d"}
    assert (built.headers, built.body) == ({"id": "h"}, {"id": 4, "id_query": 5})


def test_names_that_are_no_field_names_are_made_safe_and_lead_back() -> None:
    names = ["filter[name]", "$top", "user.name", "a b", "日本", "1st", "x" * 100, "-"]
    tool = tool_of(operation(parameters=[parameter(name) for name in names]))
    assert list(tool.input_fields) == [
        *("filter_name", "top", "user.name", "a_b", "field", "field_1st", "x" * 64, "field_query")
    ]
    built = request(tool, **dict.fromkeys(tool.input_fields, "v"))
    assert set(built.query) == set(names)


def test_each_placeholder_gets_one_path_parameter() -> None:
    parameters = [
        parameter("user id", "path", required=True),
        parameter("2", "path", {"type": "integer"}),
        parameter("gone", "path", required=True),
    ]
    found = import_of(operation(parameters=parameters), path="/a/{user id}/{2}/b/{c}:run")
    (tool,) = found.tools
    assert tool.api.path == "/a/{user_id}/{field_2}/b/{c}:run"
    assert tool.required_fields == ("user_id", "field_2", "c")
    assert request(tool, user_id="x y", field_2=3, c="z").url.endswith("/a/x%20y/3/b/z:run")
    assert len(found.warnings) == 2
    assert "'gone' is left out" in found.warnings[0]
    assert "'c' of its path is not a declared parameter" in found.warnings[1]


def test_headers_that_a_caller_cannot_set_and_cookies_are_no_fields() -> None:
    ignored = ["Accept", "Content-Type", "Authorization"]
    not_sent = ["Host", "Content-Length", "Cookie", "Proxy-Authorization", "a b", "X-\r\n"]
    headers = [parameter(name, "header") for name in [*ignored, *not_sent]]
    found = import_of(operation(parameters=[*headers, parameter("sid", "cookie", required=True)]))
    assert found.tools[0].input_fields == {}
    assert len(found.warnings) == len(not_sent) + 1
    assert all(warning.isprintable() for warning in found.warnings)
    assert found.warnings[-1] == "GET /things: the cookie parameter 'sid' is left out: cookies are not sent"
    assert "must be given" in reason_of(operation(parameters=[parameter("X-A\r\nX-B", "header", required=True)]))


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "A", "default": None},
            {"type": "integer", "title": "A"},
        ),
        ({"type": ["string", "null"], "enum": ["x", None]}, {"type": "string", "enum": ["x"]}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
    ],
)
def test_null_is_no_value_of_a_parameter(schema: Any, field: Any) -> None:
    assert tool_of(operation(parameters=[parameter("a", schema=schema)])).input_fields == {"a": field}


def test_lists_repeat_their_name_by_default_and_are_one_text_where_they_are_joined() -> None:
    ids = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    parameters = [
        parameter("plain", schema=ids),
        parameter("joined", schema=ids, explode=False, description="Which."),
        parameter("blanks", schema=ids, style="spaceDelimited"),
        parameter("piped", schema=ids, style="pipeDelimited"),
        parameter("in", "path", ids, required=True),
    ]
    tool = tool_of(operation(parameters=parameters), path="/t/{in}")
    assert tool.input_fields["plain"] == ids
    assert tool.input_fields["joined"] == {
        "type": "string",
        "description": "Which. Several values are separated by commas. Choices: a, b.",
    }
    assert "separated by blanks" in tool.input_fields["blanks"]["description"]
    assert "separated by |" in tool.input_fields["piped"]["description"]
    built = request(tool, plain=["a", "b"], joined="a,b", **{"in": "a,b"})
    assert built.query == {"plain": ["a", "b"], "joined": "a,b"}


def test_objects_in_a_query_become_a_field_for_each_property() -> None:
    schema = {
        "type": "object",
        "required": ["min"],
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
    }
    deep = tool_of(operation(parameters=[parameter("price", schema=schema, style="deepObject", required=True)]))
    assert (list(deep.input_fields), deep.required_fields) == (["price_min", "price_max"], ("price_min",))
    assert request(deep, price_min=1, price_max=2).query == {"price[min]": 1, "price[max]": 2}
    form = tool_of(operation(parameters=[parameter("price", schema=schema)]))
    assert (list(form.input_fields), form.required_fields) == (["min", "max"], ())
    assert request(form, min=1).query == {"min": 1}


def test_a_parameter_with_a_content_type_takes_a_text_of_that_type() -> None:
    one = {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    tool = tool_of(operation(parameters=[one]))
    assert tool.input_fields["where"] == {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"type": "object"},
    }
    assert request(tool, where='{"a":1}').query == {"where": '{"a":1}'}


@pytest.mark.parametrize(
    "one",
    [
        parameter("a", "path", {"type": "array"}, style="matrix", required=True),
        parameter("a", "path", style="label", required=True),
        parameter("a", schema={"type": "object"}, style="deepObject", required=True),
        parameter("a", schema={"type": "object", "properties": {"b": {}}}, explode=False, required=True),
        parameter("a", schema={"type": "object", "properties": {"b": {"type": "object"}}}, required=True),
    ],
)
def test_what_cannot_be_written_skips_the_operation_if_it_must_be_given_and_else_itself(one: dict[str, Any]) -> None:
    assert "must be given" in reason_of(operation(parameters=[one]), path="/t/{a}" if one["in"] == "path" else "/t")
    if one["in"] == "query":
        found = import_of(operation(parameters=[{**one, "required": False}, parameter("z")]))
        assert list(found.tools[0].input_fields) == ["z"]
        assert "is left out" in found.warnings[0]


def test_reserved_characters_are_encoded_all_the_same_with_a_warning() -> None:
    found = import_of(operation(parameters=[parameter("a", allowReserved=True)]))
    assert "percent-encoded" in found.warnings[0]


def test_more_values_than_a_tool_may_take_skip_the_operation() -> None:
    assert "more than 200" in reason_of(operation(parameters=[parameter(f"p{n}") for n in range(201)]))
    assert "more than 500" in reason_of(operation(parameters=[parameter("p")] * 501))
