"""A request is built from checked arguments, at the places that the configuration names, and from nothing else."""

import math
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import BASE, FLAG, TEXT, WHOLE, tool
from toolweave.nodes.http_tools.requests import WrongArguments, add_query, build_request

ORDER = tool("/orders/{id}/lines", fields={"id": {}})
TRACED = tool(fields={"trace": {}}, request={"trace": "header.X-Trace"})
SEARCH = tool(fields={"q": {}, "tags": {}})


def problems(config: Any, arguments: Any) -> list[str]:
    with pytest.raises(WrongArguments) as caught:
        build_request(config, arguments)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


@pytest.mark.requirement("W-01")
def test_each_field_goes_where_it_is_mapped_or_where_its_method_says() -> None:
    fields: dict[str, Any] = {name: {} for name in ("id", "limit", "trace", "name", "city", "note")}
    mapping = {
        "limit": "query.max",
        "trace": "header.X-Trace",
        "name": "body.user.name",
        "city": "body.$.user['a b'][1]",
    }
    config = tool("/users/{id}", "PUT", fields, request=mapping)

    request = build_request(
        config, {"id": 7, "limit": 5, "trace": "t-1", "name": "Ann", "city": {"zip": "1"}, "note": ["x"]}
    )

    assert request.model_dump() == {
        "method": "PUT",
        "url": f"{BASE}/users/7",
        "headers": {"X-Trace": "t-1"},
        "query": {"max": 5},
        "body": {"user": {"name": "Ann", "a b": [None, {"zip": "1"}]}, "note": ["x"]},
    }


@pytest.mark.parametrize(
    ("mapping", "arguments", "body"),
    [
        ({"lines": "body.$"}, {"lines": [1, {"a": 2}]}, [1, {"a": 2}]),
        ({"lines": "body.$"}, {}, None),
        ({"one": "body.$[0].a", "two": "body.$[2]"}, {"two": 2, "one": 1}, [{"a": 1}, None, 2]),
        ({"one": "body.$[0].a", "two": "body.$[2]"}, {}, []),
        ({"note": "body.note"}, {}, {}),
        ({}, {}, None),
    ],
)
def test_a_body_is_a_field_a_list_or_an_object_with_the_mapped_fields(
    mapping: dict[str, str], arguments: dict[str, Any], body: Any
) -> None:
    config = tool("/orders", "POST", {name: {} for name in mapping}, request=mapping)

    assert build_request(config, arguments).body == body


def test_secret_headers_are_left_for_the_sending_and_others_are_shown() -> None:
    headers = {"Accept": "text/csv", "X-Api-Key": "literal", "X-Shop": "{env:TOOL_SHOP}"}
    config = tool(headers=headers, auth={"type": "bearer", "value": "{env:TOOL_KEY}"})

    assert build_request(config, {}).headers == {"Accept": "text/csv"}


FILES = tool("/files/{a}{b}", fields={"a": TEXT, "b": TEXT})
REFUSED: dict[str, tuple[Any, Any, list[str]]] = {
    "every problem": (
        tool(fields={"limit": WHOLE, "q": TEXT}, required=("q",)),
        {"limit": "5"},
        ["limit must be an integer; got '5'", "q is required"],
    ),
    "no object": (SEARCH, [1], ["the arguments must be an object"]),
    "unknown field": (tool(fields={"q": TEXT}), {"x-admin": True}, ["x-admin is not a known field; known: q"]),
    "additionalProperties": (
        tool(fields={"q": TEXT}, schema={"additionalProperties": True, "patternProperties": {"^x": {}}}),
        {"q": "a", "x-admin": True},
        ["x-admin is not a known field; known: q"],
    ),
    "boolean as number": (
        tool(fields={"n": WHOLE, "f": FLAG}),
        {"n": True, "f": 1},
        ["n must be an integer; got true", "f must be a boolean; got 1"],
    ),
    "dots of two fields": (FILES, {"a": ".", "b": "."}, ["a would make '..' of a part of the path"]),
    "encoded dots": (FILES, {"a": "%2", "b": "e."}, ["a would make '%2e.' of a part of the path"]),
    "long header": (TRACED, {"trace": "x" * 4_001}, ["trace may have 4000 characters at most: it goes to a header"]),
    "no placeholder": (ORDER, {}, ["id is required and may not be empty: it is a part of the path"]),
    "list in a header": (TRACED, {"trace": ["a"]}, ["trace must be one text, number or boolean: it goes to a header"]),
    "long URL": (SEARCH, {"q": "é" * 2_000}, ["the arguments make a URL of more than 8192 characters"]),
    "odd name": (SEARCH, {"\ud800" + "x" * 5_000: 1}, [f"?{'x' * 59} is not a known field; known: q, tags"]),
}


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(("config", "arguments", "expected"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_do_not_fit_are_refused_with_every_problem(
    config: Any, arguments: Any, expected: list[str]
) -> None:
    assert problems(config, arguments) == expected


def test_null_for_an_optional_field_that_cannot_be_null_means_absent() -> None:
    config = tool("/orders", "POST", {"q": TEXT, "note": {"type": ["string", "null"]}, "id": TEXT}, required=("id",))

    assert build_request(config, {"id": "a", "q": None, "note": "b"}).body == {"id": "a", "note": "b"}
    assert problems(config, {"id": None, "q": None}) == ["id must be a string; got null"]


def test_only_a_placeholder_takes_the_default_of_its_schema() -> None:
    fields = {"lang": {"type": "string", "default": "en"}, "limit": {"type": "integer", "default": 10}}
    config = tool("/{lang}/orders", fields=fields, required=("lang",))

    assert build_request(config, {}).url == f"{BASE}/en/orders"
    assert build_request(config, {}).query == {}
    assert build_request(config, {"lang": "de"}).url == f"{BASE}/de/orders"


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("a b", "a%20b"),
        ("50%25", "50%2525"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("a..b", "a..b"),
        (5.0, "5"),
        (2.5, "2.5"),
        (True, "true"),
    ],
)
def test_a_path_value_is_encoded_whole(value: Any, segment: str) -> None:
    assert build_request(ORDER, {"id": value}).url == f"{BASE}/orders/{segment}/lines"


@pytest.mark.parametrize(
    "value",
    [
        *("..", "%2E.", "%252e%252e", "..;a=b", " .. ", "a%252Fb", "\\", "a\r\nX-Evil: 1", "a%00b", "\x7f"),
        *("", None, ["a"], {"a": 1}, "x" * 3_000, "\ud800"),
    ],
)
def test_a_value_that_could_leave_its_segment_is_refused(value: Any) -> None:
    assert all(problem.startswith("id ") for problem in problems(ORDER, {"id": value}))


any_text = st.text(max_size=40) | st.text(alphabet="./%2eE5cCfF\\;?#@: \r\n", max_size=12)


@pytest.mark.requirement("W-09")
@given(any_text)
@example("%2e%2e%2fadmin")
@example("１．．/")
@example("a%c0%afb")
def test_any_text_in_a_path_stays_within_its_segment(value: str) -> None:
    try:
        url = build_request(ORDER, {"id": value}).url
    except WrongArguments:
        return
    for path in (urlsplit(url).path, httpx.URL(url).raw_path.decode(), urlsplit(str(httpx.URL(url))).path):
        segments = path.split("/")
        assert segments[:3] + segments[4:] == ["", "v1", "orders", "lines"]
        assert unquote(segments[3]) == value
    assert (urlsplit(url).netloc, urlsplit(url).query, urlsplit(url).fragment) == ("api.example.com", "", "")
    # Also for those that decode before they choose, once or more.
    once = unquote(urlsplit(url).path)
    assert once.count("/") == unquote(once).count("/") == 4


@given(any_text)
@example("a\r\nX-Evil: 1")
@example("a\tb")
@example(" a")
@example("Ä")
def test_any_text_in_a_header_is_sent_as_it_is_or_refused(value: str) -> None:
    try:
        sent = build_request(TRACED, {"trace": value}).headers["X-Trace"]
    except WrongArguments:
        assert not value.isascii() or not value.isprintable() or value != value.strip()
        return
    assert sent == value
    assert httpx.Headers({"X-Trace": sent}).raw == [(b"X-Trace", value.encode("ascii"))]


def test_a_query_holds_scalars_lists_and_json_and_leaves_null_out() -> None:
    fields: dict[str, Any] = {name: {} for name in "abcdefgh"}
    arguments = {"a": 5, "b": True, "c": None, "d": ["x", 1, None, 2.0], "e": {"k": [1]}, "f": [], "g": 2.5, "h": [[1]]}
    request = build_request(tool(fields=fields), arguments)

    assert request.query == {"a": 5, "b": True, "d": ["x", 1, 2], "e": '{"k":[1]}', "g": 2.5, "h": ["[1]"]}
    assert add_query("http://h/", request.query) == (
        "http://h/?a=5&b=true&d=x&d=1&d=2&e=%7B%22k%22%3A%5B1%5D%7D&g=2.5&h=%5B1%5D"
    )


@given(any_text, st.lists(any_text, min_size=1, max_size=4))
def test_any_texts_in_a_query_are_read_back_unchanged(one: str, several: list[str]) -> None:
    request = build_request(SEARCH, {"q": one, "tags": several})
    url = add_query(request.url, request.query)

    assert parse_qs(urlsplit(url).query, keep_blank_values=True) == {"q": [one], "tags": several}
    assert httpx.URL(url).params.get_list("tags") == several
    assert urlsplit(url).path == "/v1/orders"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "must be JSON"),
        (1 << 64, "must be JSON"),
        ([10**5_000], "must be JSON"),
        ({"\ud800": 1}, "must be JSON"),
        ("x" * 1_000_001, "is too large"),
        ([0] * 400_000, "is too large"),
        (b"x", "must be JSON"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_value_that_no_request_can_hold_is_refused_by_field(method: str, value: Any, reason: str) -> None:
    (problem,) = problems(tool("/orders", method, {"q": {}}), {"q": value})

    assert problem.startswith("q ")
    assert reason in problem
    assert len(problem) < 300


def test_a_value_nested_too_deeply_is_refused() -> None:
    value: Any = []
    for _ in range(5_000):
        value = [value]

    assert "nested" in problems(tool("/orders", "POST", {"q": {}}), {"q": value})[0]
