"""A tool configuration that could send what it does not say, or nothing sensible, is refused when it is written."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolweave.tool_config import RequestLocation, ToolConfig


def document(fields: tuple[str, ...] = (), request: dict[str, str] | None = None, **api: Any) -> dict[str, Any]:
    return {
        "tool_id": "orders",
        "name": "Orders",
        "description": "Lists orders.",
        "api": {"base_url": "https://api.example.com/v1", "path": "/orders", "method": "GET", **api},
        "input_schema": {"type": "object", "properties": {name: {"type": "string"} for name in fields}},
        "field_mappings": {"request": request or {}},
    }


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        ToolConfig.model_validate(config)
    return "; ".join(str(error["msg"]) for error in caught.value.errors())


def test_a_configuration_survives_being_stored() -> None:
    written = document(("id", "q", "trace"), {"q": "query.search", "trace": "header.X-Trace"}, path="orders/{id}")
    written["field_mappings"]["response"] = {"ids": "$.items[*].id"}
    config = ToolConfig.model_validate(written)

    assert config.api.path == "/orders/{id}"
    assert ToolConfig.model_validate(config.model_dump()) == config
    assert ToolConfig.from_stored(config.model_dump(mode="json")) == config
    assert config.model_dump()["field_mappings"] == written["field_mappings"]


@pytest.mark.requirement("W-01")
def test_absent_mappings_are_stored_as_empty() -> None:
    written = document()
    del written["field_mappings"]
    stored = ToolConfig.model_validate(written).model_dump()

    assert (stored["field_mappings"], stored["output_schema"]) == ({}, {})
    assert stored["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.requirement("W-01")
def test_fields_without_a_mapping_have_their_usual_places() -> None:
    fields = ("id", "q", "first name")
    read = ToolConfig.model_validate(document(fields, {"q": "header.X-Q"}, path="/{id}"))
    changed = ToolConfig.model_validate(document(fields, {"q": "query.q"}, path="/{id}", method="patch"))

    assert read.request_locations == {
        "id": RequestLocation("path", "id"),
        "q": RequestLocation("header", "X-Q"),
        "first name": RequestLocation("query", "first name"),
    }
    assert {name: str(place) for name, place in changed.request_locations.items()} == {
        "id": "path.id",
        "q": "query.q",
        "first name": "body.$['first name']",
    }


@pytest.mark.parametrize(
    "base_url",
    [
        *("https://api.example.com", "http://localhost:8080/api/", "http://10.0.0.5", "http://[::1]:8000"),
        *("http://169.254.169.254", "https://bücher.example/v1"),
    ],
)
def test_only_the_form_of_a_base_url_is_checked_here(base_url: str) -> None:
    # The outbound policy decides whether a private address is allowed.
    assert ToolConfig.model_validate(document(base_url=base_url)).api.base_url == base_url.rstrip("/")


@pytest.mark.parametrize(
    "base_url",
    [
        *("", "api.example.com", "/v1", "ftp://api.example.com", "file:///etc/passwd", "javascript:alert(1)", "//host"),
        *("https://", "https://user:secret@api.example.com", "https://user@api.example.com", "https://a.com\\@b.com"),
        *("https://api.example.com?x=1", "https://api.example.com/#top", "https://{host}/v1", "https://a.com/{v}"),
        *("https://a.com/../b", "https://a.com/%2e%2E/b", "https://a.com/v1/..", "https://a.com/.%2e"),
        *("https://a.com/x%2f..%2fy", "https://a.com/..%5cb", "https://a.com/a b", "https://a.com/\r\nHost: b"),
        *("http://2130706433", "http://0x7f.1", "http://0177.0.0.1", "https://a.com:99999", "https://a_b c.com"),
        "https://a.com/" + "x" * 2_000,
    ],
)
def test_a_base_url_that_could_be_read_in_two_ways_is_refused(base_url: str) -> None:
    message = refusal(document(base_url=base_url))

    assert message
    assert "secret" not in message


@pytest.mark.parametrize(
    "path",
    [
        *("/a/../b", "/./a", "/%2e%2e/a", "/a/%2E", "/..", "/a%2f..%2fb", "/a?x=1", "/a#b", "/a b", "/a\\b", "/a\r\nb"),
        *("/{id", "/id}", "/{}", "/{id}/{id}", "/{a b}", "/{{id}}", "/{id}/..", "/{i/d}"),
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    assert refusal(document(("id",), path=path))


def test_every_placeholder_is_filled_by_one_field() -> None:
    assert "no input field fills the path's placeholder id" in refusal(document(path="/{id}"))
    assert "no input field fills the path's placeholder id" in refusal(
        document(("id",), {"id": "query.id"}, path="/{id}")
    )
    assert "fills a placeholder that the path has not: other" in refusal(document(("id",), {"id": "path.other"}))
    assert "the fields id and key both go to path.id" in refusal(
        document(("id", "key"), {"key": "path.id"}, path="/{id}")
    )


def test_a_mapping_names_a_field_of_the_schema() -> None:
    assert "names fields that the input_schema has not: q" in refusal(document((), {"q": "query.q"}))


@pytest.mark.parametrize(
    ("fields", "request_places", "message"),
    [
        (("a", "b"), {"a": "body.x", "b": "body.x"}, "the fields a and b both go to body.x"),
        (("a", "b"), {"a": "body.x", "b": "body.$['x']"}, "the fields a and b both go to body.$['x']"),
        (("a", "b"), {"a": "body.b"}, "the fields a and b both go to body.$.b"),
        (("a", "b"), {"a": "body.x", "b": "body.x.y"}, "body.x of a holds the place of another field"),
        (("a", "b"), {"a": "body.x.y", "b": "body.x"}, "body.x of b holds the place of another field"),
        (("a", "b"), {"a": "body.x[0]", "b": "body.x.y"}, "would make the same thing a list and an object"),
        (("a", "b"), {"a": "body.$"}, "body.$ of a holds the place of another field"),
        (("a", "b"), {"a": "body.$[0]"}, "would make the same thing a list and an object"),
        (("a", "b"), {"a": "header.X-A", "b": "header.x-a"}, "the fields a and b both go to header.x-a"),
        (("a", "b"), {"a": "query.q", "b": "query.q"}, "the fields a and b both go to query.q"),
        (("__proto__",), {}, "may not begin and end with __"),
    ],
)
def test_places_that_cannot_all_be_filled_are_refused(
    fields: tuple[str, ...], request_places: dict[str, str], message: str
) -> None:
    assert message in refusal(document(fields, request_places, method="POST"))


def test_places_side_by_side_are_accepted() -> None:
    bodies = ("body.a.b", "body.a.c", "body.l[0]", "body.l[1].x", "body.ab")
    places = dict(enumerate((*bodies, "query.a", "query.A", "header.a", "path.a")))
    fields = {f"field_{number}": place for number, place in places.items()}
    config = ToolConfig.model_validate(document(tuple(fields), fields, path="/{a}", method="POST"))
    assert {name: str(place) for name, place in config.request_locations.items()} == fields


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_method_without_a_body_takes_no_fields_in_it(method: str) -> None:
    assert f"a {method} request has no body" in refusal(document(("a",), {"a": "body.a"}, method=method))


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer", "Expect"),
        *("Keep-Alive", "Proxy-Authorization", "proxy-anything", "Accept-Encoding", "X-HTTP-Method-Override"),
    ],
)
def test_headers_about_the_connection_cannot_be_set(name: str) -> None:
    assert "the configuration or the client fills" in refusal(document(("a",), {"a": f"header.{name}"}))
    assert f"the header {name} is set by the client itself" in refusal(document(headers={name: "x"}))
    auth = {"type": "api_key", "name": name, "value": "{env:TOOL_KEY}"}
    assert f"the header {name} is set by the client itself" in refusal(document(auth=auth))


@pytest.mark.parametrize("name", ["Authorization", "cookie", "Content-Type", "X-Api-Key", "x-shop"])
def test_no_argument_takes_the_place_of_a_credential_or_a_configured_header(name: str) -> None:
    auth = {"type": "api_key", "name": "x-api-key", "value": "{env:TOOL_KEY}"}

    message = refusal(document(("a",), {"a": f"header.{name}"}, auth=auth, headers={"X-Shop": "1"}))

    assert f"the field a goes to header.{name}, which the configuration or the client fills" in message


@pytest.mark.parametrize("request_places", [{}, {"key": "query.KEY"}])
def test_no_argument_takes_the_place_of_a_credential_in_the_query(request_places: dict[str, str]) -> None:
    auth = {"type": "api_key", "location": "query", "name": "key", "value": "{env:TOOL_KEY}"}

    assert "which the configuration or the client fills" in refusal(document(("key",), request_places, auth=auth))
    assert ToolConfig.model_validate(document(("key",), {"key": "query.id"}, auth=auth)).request_locations


@pytest.mark.parametrize(
    "api",
    [
        *({"method": method} for method in ("OPTIONS", "TRACE", "CONNECT", "GET\r\n", "")),
        *({"headers": {name: value}} for name, value in (("X-A", "a\r\nb"), ("X A", "b"), ("X-A", "ä"), ("", "a"))),
        {"headers": {"X-A": "1", "x-a": "2"}},
    ],
)
def test_other_methods_and_static_headers_that_cannot_be_sent_are_refused(api: dict[str, Any]) -> None:
    assert refusal(document(**api))


def test_a_response_mapping_is_read_when_it_is_configured() -> None:
    config = document()

    assert "begins with $" in refusal({**config, "field_mappings": {"response": {"a": "items"}}})
    assert "cannot be read" in refusal({**config, "field_mappings": {"response": {"a": "$[?match(@.a, 'x+')]"}}})
    assert "200" in refusal({**config, "field_mappings": {"response": {str(n): "$" for n in range(201)}}})


def test_an_input_schema_describes_an_object() -> None:
    assert "must describe an object" in refusal({**document(), "input_schema": {"type": "array"}})
    assert refusal({**document(), "input_schema": {"type": "object", "properties": 5}})
    assert "5000 parts" in refusal({**document(), "output_schema": {"enum": list(range(6_000))}})


def test_refusals_are_short_and_contain_no_credential() -> None:
    names = tuple(f"{number}{'x' * 300}" for number in range(100))
    auth = {"type": "bearer", "value": "literal-secret"}
    config = document((), dict.fromkeys(names, "query.a"), auth=auth)

    assert len(refusal(config)) < 600
    with pytest.raises(ValidationError) as caught:
        ToolConfig.model_validate(config)
    assert "literal-secret" not in str(caught.value)


@given(st.text(max_size=12) | st.text(alphabet="{}/.%2eEfF?#\\ab:;", max_size=16))
@example("/%2e%2e/{id}")
def test_any_path_is_a_plain_path_or_refused(path: str) -> None:
    try:
        config = ToolConfig.model_validate(document(("id",), path=path))
    except ValidationError:
        return
    decoded = config.api.path.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/")
    assert config.api.path.startswith("/")
    assert not {".", ".."} & set(decoded.split("/"))
    assert set(config.api.placeholders) <= {"id"}
