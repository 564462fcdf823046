"""A written request is the built one however it is spelled; any other is told apart in words that help to repair it."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import BASE, FLAG, NUMBER, TEXT, WHOLE, tool
from toolweave.nodes.http_tools.loose_equality import same_value
from toolweave.nodes.http_tools.request_building import WrongArguments, build_request
from toolweave.nodes.http_tools.request_comparison import MOST_DIFFERENCES, arguments_of, differences
from toolweave.nodes.http_tools.specs import HTTPRequestSpec

SHOP = tool("/orders/{id}", fields={"id": TEXT, "limit": WHOLE, "open": FLAG, "tags": {"type": "array", "items": TEXT}})
GIVEN = {"id": "a b/é"[:3], "limit": 5, "open": True, "tags": ["x", "y"]}
BUILT = build_request(SHOP, GIVEN)
URL = f"{BASE}/orders/a%20b"
QUERY = {"limit": 5, "open": True, "tags": ["x", "y"]}


def written(method: str = "GET", url: str = URL, **parts: Any) -> HTTPRequestSpec:
    return HTTPRequestSpec.model_validate({"method": method, "url": url, **parts})


def posted(body: Any) -> HTTPRequestSpec:
    return written("POST", f"{BASE}/orders", body=body)


@pytest.mark.parametrize(
    "other",
    [
        written(query=QUERY),
        written(method="get", query={"limit": "5", "open": "true", "tags": ["x", "y"], "none": None}),
        written(query={"limit": 5.0, "open": "true", "tags": ["x", "y", None]}),
        written(url=f"{BASE}/orders/../orders/./a%20b", query=QUERY),
        written(url=f"{URL}?limit=5&open=true&tags=x&tags=y"),
        written(url=f"{URL}?limit=5&tags=x&tags=y", query={"open": True, "limit": "5"}),
        written(url="https://API.example.com:443/v1/orders/a%20b/", query=QUERY),
        written(url="HTTPS://api.example.com/v1/%6frders/%61%20b#top", query=QUERY),
        written(url="/v1/orders/a%20b", query=QUERY),
        written(query=QUERY, body={}),
        written(query=QUERY, body=""),
        written(query=QUERY, headers={"Host": "evil.example", "Authorization": "Bearer made-up"}),
    ],
)
def test_the_same_request_is_recognised_however_it_is_spelled(other: HTTPRequestSpec) -> None:
    assert differences(BUILT, other) == []
    assert arguments_of(SHOP, other) == GIVEN


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (written("DELETE", query=QUERY), ["method must be GET, not DELETE"]),
        (
            written(url="https://evil.example/v1/orders/a%20b", query=QUERY),
            ["url must begin with https://api.example.com, not https://evil.example"],
        ),
        (
            written(url="http://api.example.com/v1/orders/a%20b", query=QUERY),
            ["url must begin with https://api.example.com, not http://api.example.com"],
        ),
        (
            written(url="https://api.example.com:8443/v1/orders/a%20b", query=QUERY),
            ["url must begin with https://api.example.com, not https://api.example.com:8443"],
        ),
        (
            written(url="https://api.example.com.evil.example/v1/orders/a%20b", query=QUERY),
            ["url must begin with https://api.example.com, not https://api.example.com.evil.example"],
        ),
        (
            written(url="//evil.example/v1/orders/a%20b", query=QUERY),
            ["url cannot be used: Only URLs that begin with http:// or https:// are requested."],
        ),
        (
            written(url=f"{BASE}/orders/7", query=QUERY),
            ["the path of url must be /v1/orders/a%20b, not /v1/orders/7"],
        ),
        (
            written(url=f"{BASE}/orders/{{id}}", query=QUERY),
            ["the path of url must be /v1/orders/a%20b, not /v1/orders/%7Bid%7D"],
        ),
        (written(query={**QUERY, "limit": 50}), ["query parameter limit must be 5, not 50"]),
        (written(query={**QUERY, "tags": ["y", "x"]}), ["query parameter tags must be 'x', 'y', not 'y', 'x'"]),
        (written(query={**QUERY, "open": 1}), ["query parameter open must be true, not 1"]),
        (written(url=f"{URL}?limit=6", query=QUERY), ["query parameter limit must be 5, not '6', 5"]),
        (written(query={"open": True, "tags": ["x", "y"]}), ["query has no limit, the arguments make it 5"]),
        (
            written(query={**QUERY, "admin": 1}),
            ["query has admin, which the arguments do not make; leave it out or give it as an argument"],
        ),
        (written(query=QUERY, body={"a": 1}), ["body must be absent, not an object"]),
        (written(query=QUERY, body="text"), ["body must be absent, not 'text'"]),
    ],
)
def test_another_request_is_told_apart(other: HTTPRequestSpec, said: list[str]) -> None:
    assert differences(BUILT, other) == said


@pytest.mark.parametrize(
    "url",
    [
        f"{BASE}/orders/x/../../a%20b",
        f"{BASE}/orders/%2e%2e/orders/a%20b",
        f"{BASE}//orders/a%20b",
        f"{BASE}/orders%2Fa%20b",
        "https://api.example.com@evil.example/v1/orders/a%20b",
        "https://user:secret@api.example.com/v1/orders/a%20b",
        "https://api.example.com\\@evil.example/v1/orders/a%20b",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "/../orders/a%20b",
        "a b",
        "?limit=5",
    ],
)
def test_a_url_with_tricks_is_never_the_same(url: str) -> None:
    assert differences(BUILT, written(url=url, query=QUERY))
    with pytest.raises(WrongArguments):
        arguments_of(SHOP, written(url=url, query=QUERY))


BODY = {"user": {"name": "Ann", "age": 30, "note": None}, "lines": [{"n": 1}, {"n": 2.5}], "ok": True}
POSTED = posted(BODY)


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        {"user": {"name": "Ann", "age": 30.0}, "lines": [{"n": "1"}, {"n": 2.5, "x": None}], "ok": "true", "z": None},
        '{"user": {"name": "Ann", "age": 30}, "lines": [{"n": 1}, {"n": 2.5}], "ok": true}',
    ],
)
def test_bodies_with_the_same_meaning_are_the_same(body: Any) -> None:
    assert differences(POSTED, posted(body)) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({**BODY, "ok": False}, ["body.ok must be true, not false"]),
        ({**BODY, "ok": None}, ["body.ok must be true, not absent"]),
        ({**BODY, "admin": 1}, ["body.admin is not what the arguments make; leave it out or give it as an argument"]),
        ({**BODY, "lines": [{"n": 1}]}, ["body.lines must be a list of 2 items, not a list of 1 items"]),
        ({**BODY, "lines": [{"n": 1}, {"n": 3}]}, ["body.lines[1].n must be 2.5, not 3"]),
        ({**BODY, "user": "Ann"}, ["body.user must be an object, not 'Ann'"]),
        ({**BODY, "user": {"name": "Bob", "age": 30}}, ["body.user.name must be 'Ann', not 'Bob'"]),
        ("not json", ["body must be an object, not 'not json'"]),
        ([], ["body must be an object, not a list of 0 items"]),
    ],
)
def test_what_differs_in_a_body_is_named_by_its_place(body: Any, said: list[str]) -> None:
    assert differences(POSTED, posted(body)) == said


def test_an_absent_body_lacks_every_field() -> None:
    assert differences(POSTED, posted(None)) == [
        "body.user.name must be 'Ann', not absent",
        "body.user.age must be 30, not absent",
        "body.lines must be a list of 2 items, not absent",
        "body.ok must be true, not absent",
    ]


def test_only_so_many_differences_are_named_and_none_at_length() -> None:
    said = differences(
        posted({}), posted({"\ud800" + "x" * 5_000: "y" * 5_000, **{str(number): 1 for number in range(50)}})
    )

    assert len(said) == MOST_DIFFERENCES
    assert all(len(line) < 400 and line.encode() for line in said)


def test_bodies_nested_without_end_are_compared() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]

    assert differences(POSTED, posted(deep)) == ["body must be an object, not a list of 1 items"]
    assert differences(POSTED, posted("[" * 50_000)) == [
        f"body must be an object, not {'[' * 60!r}… (50000 characters)"
    ]
    assert len(differences(BUILT, written(query={**QUERY, "limit": {"a": deep}}))) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (5, "5", True),
        (5, 5.0, True),
        (5, " 5", True),
        (0.1, "0.10", True),
        (1e22, "1e+22", True),
        (10**18 + 1, 10**18, False),
        (True, "TRUE", False),
        (True, "true", True),
        (False, "false", True),
        (True, 1, False),
        (1, True, False),
        (None, "null", False),
        (None, None, True),
        ("05", "5", False),
        ("a", "A", False),
        (5, "five", False),
        (5, "sNaN", False),
        (5, "NaN", False),
        (5, "Infinity", False),
        (5, "1e999999999999999999999", False),
        (5, float("inf"), False),
        ('{"a": 1}', '{"a":1.0}', True),
        ('{"a": 1}', "{", False),
        ("[1]", "{}", False),
    ],
)
def test_scalars_are_the_same_when_they_mean_the_same(one: Any, other: Any, same: bool) -> None:
    assert same_value(one, other) is same


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
@settings(max_examples=200)
def test_any_body_is_the_same_as_itself_and_any_two_can_be_compared(one: Any, other: Any) -> None:
    assert differences(posted(one), posted(one)) == []
    assert isinstance(differences(posted(one), posted(other)), list)


@given(
    st.text(max_size=40) | st.text(alphabet="htps:/.@%2e?#[]\\evil", max_size=30),
    st.dictionaries(st.text(max_size=5), json_values),
)
@settings(max_examples=200)
@example("https://[::1", {})
@example("https://api.example.com/v1/orders/%", {})
def test_any_written_request_is_compared_or_refused_in_words(url: str, query: dict[str, Any]) -> None:
    request = written(url=url or "/", query=query)

    assert differences(BUILT, request)
    try:
        arguments = arguments_of(SHOP, request)
    except WrongArguments:
        return
    assert differences(build_request(SHOP, arguments), request) == []


FIELDS = {"id": TEXT, "count": WHOLE, "price": NUMBER, "open": FLAG, "trace": TEXT, "name": TEXT, "note": TEXT}
scalar_arguments = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=10)},
    optional={
        "count": st.integers(-(1 << 63), (1 << 64) - 1),
        "price": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1_000, 1_000),
        "open": st.booleans(),
        "trace": st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=10),
        "name": st.text(max_size=10),
        "note": st.text(max_size=10) | st.sampled_from(["5", "true", "null", "{}", "[1]", '"a"']),
    },
)


@pytest.mark.parametrize("method", ["GET", "POST"])
@given(arguments=scalar_arguments)
@settings(max_examples=150)
def test_the_arguments_of_a_built_request_are_those_it_was_built_from(method: str, arguments: dict[str, Any]) -> None:
    mapping = {"trace": "header.X-Trace", "count": "query.n"}
    if method == "POST":
        mapping["name"] = "body.user['full name']"
    config = tool("/orders/{id}.json", method, FIELDS, request=mapping)
    try:
        built = build_request(config, arguments)
    except WrongArguments as refused:
        assert all(problem.startswith("id ") for problem in refused.problems)  # noqa: PT017 - most are not refused
        return

    assert arguments_of(config, built) == arguments
    assert differences(built, built) == []


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (WHOLE, "5", 5),
        (NUMBER, "2.5", 2.5),
        (FLAG, "false", False),
        (TEXT, "5", "5"),
        ({}, "5", "5"),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"enum": [1, 2]}, "2", 2),
        ({"$ref": "#/$defs/amount"}, "7", 7),
        ({"type": "array", "items": WHOLE}, "7", [7]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ],
)
def test_texts_of_a_url_become_what_the_schema_takes(form: Any, text: str, value: Any) -> None:
    config = tool(fields={"x": form}, schema={"$defs": {"amount": WHOLE}})

    assert arguments_of(config, written(url=f"{BASE}/orders?x={quote(text)}")) == {"x": value}
    assert arguments_of(config, written(url=f"{BASE}/orders", query={"x": value})) == {"x": value}


def test_a_list_in_a_query_may_be_written_with_commas() -> None:
    assert differences(BUILT, written(query={**QUERY, "tags": "x,y"})) == []


def test_a_list_of_texts_becomes_a_list_of_numbers() -> None:
    config = tool(fields={"x": {"type": "array", "items": WHOLE}})

    assert arguments_of(config, written(url=f"{BASE}/orders?x=1&x=2")) == {"x": [1, 2]}


def test_a_number_becomes_the_text_that_a_schema_wants() -> None:
    config = tool("/orders/{id}", "POST", {"id": TEXT, "zip": TEXT})

    assert arguments_of(config, written("POST", f"{BASE}/orders/5", body={"zip": 10115})) == {"id": "5", "zip": "10115"}


@pytest.mark.parametrize(
    ("path", "url", "values"),
    [
        ("/a/{x}-{y}", "/a/1-2", {"x": "1", "y": "2"}),
        ("/a/{x}.{y}.json", "/a/b.c.json", {"x": "b", "y": "c"}),
        ("/a({x})", "/a(7)", {"x": "7"}),
        ("/{x}/{y}/", "/1/2", {"x": "1", "y": "2"}),
        ("/a/{x}{y}", "/a/12", None),
        ("/a/{x}-{y}", "/a/1", None),
        ("/a/{x}-", "/a/-", None),
        ("/a/{x}", "/a/b/c", None),
        ("/a/{x}", "/b/c", None),
        ("/" + "".join(f"{{p{number}}}-" for number in range(60)) + "x", "/" + "-" * 7_000, None),
    ],
)
def test_placeholders_are_read_from_a_path(path: str, url: str, values: dict[str, str] | None) -> None:
    names = ["x", "y"] if "{x}" in path else [f"p{number}" for number in range(60)]
    config = tool(path, fields={name: TEXT for name in names if f"{{{name}}}" in path})
    request = written(url=f"{BASE}{url}")
    if values is not None:
        assert arguments_of(config, request) == values
        return
    with pytest.raises(WrongArguments, match="with values for the placeholders"):
        arguments_of(config, request)


def test_a_field_in_a_header_is_read_and_no_other_header() -> None:
    config = tool(fields={"trace": TEXT}, request={"trace": "header.X-Trace"})
    headers = {"x-trace": "t1", "Authorization": "Bearer made-up", "X-Forwarded-Host": "evil.example"}

    arguments = arguments_of(config, written(url=f"{BASE}/orders", headers=headers))

    assert arguments == {"trace": "t1"}
    assert build_request(config, arguments).headers == {"X-Trace": "t1"}


def test_a_whole_body_is_read_back() -> None:
    config = tool("/orders", "POST", {"lines": {"type": "array"}}, request={"lines": "body.$"})

    assert arguments_of(config, posted([1, {"a": 2}])) == {"lines": [1, {"a": 2}]}
    assert arguments_of(config, posted("[1]")) == {"lines": [1]}
    assert arguments_of(config, posted(None)) == {}


def test_what_the_configuration_does_not_name_is_refused() -> None:
    config = tool("/orders", "POST", {"note": TEXT, "limit": WHOLE}, request={"limit": "query.n"})

    with pytest.raises(WrongArguments) as caught:
        arguments_of(config, written("POST", f"{BASE}/orders?n=5&debug=1", body={"note": "a", "admin": True}))

    assert caught.value.problems == [
        "query has debug, which the arguments do not make; leave it out or give it as an argument",
        "body.admin is not what the arguments make; leave it out or give it as an argument",
    ]
