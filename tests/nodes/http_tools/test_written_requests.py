"""A request that a model writes is compared with the built one, and its arguments are inferred from it (W-05)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import BASE, FLAG, NUMBER, TEXT, WHOLE, tool, written
from toolweave.nodes.http_tools.requests import (
    MAX_DIFFERENCES,
    HTTPRequestSpec,
    WrongArguments,
    add_query,
    build_request,
    infer_arguments,
    request_differences,
)

SHOP = tool("/orders/{id}", fields={"id": TEXT, "limit": WHOLE, "open": FLAG, "tags": {"type": "array", "items": TEXT}})
ARGUMENTS = {"id": "a b", "limit": 5, "open": True, "tags": ["x", "y"]}
BUILT = build_request(SHOP, ARGUMENTS)
URL = f"{BASE}/orders/a%20b"
QUERY = {"limit": 5, "open": True, "tags": ["x", "y"]}


def get_order(*, method: str = "GET", url: str = URL, **parts: Any) -> HTTPRequestSpec:
    return written(method, url, **parts)


def posted(body: Any) -> HTTPRequestSpec:
    return written("POST", f"{BASE}/orders", body=body)


@pytest.mark.parametrize(
    "other",
    [
        get_order(method="get", query={"limit": "5", "open": "true", "tags": ["x", "y", None], "none": None}),
        get_order(url=f"{BASE}/orders/../orders/./a%20b", query={"limit": 5.0, "open": True, "tags": ["x", "y"]}),
        get_order(url=f"{URL}?limit=5&open=true&tags=x&tags=y", body={}),
        get_order(url=f"{URL}?limit=5&tags=x&tags=y", query={"open": True, "limit": "5"}, body=""),
        get_order(url="HTTPS://API.example.com:443/v1/%6frders/%61%20b/#top", query=QUERY),
        get_order(url="/v1/orders/a%20b", query=QUERY),
        get_order(query=QUERY, headers={"Host": "evil.example", "Authorization": "Bearer made-up"}),
    ],
)
def test_the_same_request_in_another_spelling_has_no_differences(other: HTTPRequestSpec) -> None:
    assert request_differences(BUILT, other) == []
    assert infer_arguments(SHOP, other) == ARGUMENTS


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (get_order(method="DELETE", query=QUERY), "method must be GET, not DELETE"),
        *(
            (get_order(url=f"{host}/v1/orders/a%20b", query=QUERY), f"url must be {URL}, not {host}/v1/orders/a%20b")
            for host in (
                "http://api.example.com",
                "https://api.example.com:8443",
                "https://api.example.com.evil.example",
            )
        ),
        (
            get_order(url="//evil.example/v1/orders/a%20b", query=QUERY),
            "url cannot be used: Only URLs that begin with http:// or https:// are requested.",
        ),
        (get_order(url=f"{BASE}/orders/{{id}}", query=QUERY), f"url must be {URL}, not {BASE}/orders/%7Bid%7D"),
        (get_order(query={**QUERY, "tags": ["y", "x"]}), "query.tags must be x,y, not y,x"),
        (get_order(query={**QUERY, "open": 1}), "query.open must be true, not 1"),
        (get_order(url=f"{URL}?limit=6", query=QUERY), "query.limit must be 5, not 6,5"),
        (get_order(query={"open": True, "tags": "x,y"}), "query.limit must be 5, not absent"),
        (get_order(query={**QUERY, "admin": 1}), "query.admin must be absent, not 1"),
        (get_order(query=QUERY, body="text"), "body must be absent, not text"),
    ],
)
def test_a_different_request_is_described_by_its_difference(other: HTTPRequestSpec, expected: str) -> None:
    assert request_differences(BUILT, other) == [expected]


@pytest.mark.parametrize(
    "url",
    [
        f"{BASE}/orders/%2e%2e/orders/a%20b",
        f"{BASE}//orders/a%20b",
        f"{BASE}/orders%2Fa%20b",
        "https://user:secret@api.example.com/v1/orders/a%20b",
        "https://api.example.com\\@evil.example/v1/orders/a%20b",
        "file:///etc/passwd",
        "?limit=5",
    ],
)
def test_a_hostile_url_is_never_the_same_request(url: str) -> None:
    assert request_differences(BUILT, get_order(url=url, query=QUERY))
    with pytest.raises(WrongArguments):
        infer_arguments(SHOP, get_order(url=url, query=QUERY))


BODY = {"user": {"name": "Ann", "age": 30, "note": None}, "lines": [{"n": 1}, {"n": 2.5}], "ok": True}
ALL_ABSENT = [
    "body.ok must be true, not absent",
    "body.user.name must be Ann, not absent",
    "body.user.age must be 30, not absent",
    "body.lines[0].n must be 1, not absent",
    "body.lines[1].n must be 2.5, not absent",
]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"user": {"name": "Ann", "age": 30.0}, "lines": [{"n": "1"}, {"n": 2.5, "x": None}], "ok": "true"}, []),
        ('{"user": {"name": "Ann", "age": 30}, "lines": [{"n": 1}, {"n": 2.5}], "ok": true}', []),
        ({**BODY, "ok": False, "admin": 1}, ["body.ok must be true, not false", "body.admin must be absent, not 1"]),
        ({**BODY, "lines": [{"n": 1}, {"n": 3}]}, ["body.lines[1].n must be 2.5, not 3"]),
        (None, ALL_ABSENT),
        ([], ALL_ABSENT),
        ("not json", [*ALL_ABSENT, "body must be absent, not not json"]),
    ],
)
def test_differences_in_a_body_are_named_by_their_place(body: Any, expected: list[str]) -> None:
    assert request_differences(posted(BODY), posted(body)) == expected


def test_the_number_and_length_of_differences_are_limited() -> None:
    found = request_differences(
        posted({}), posted({"x" * 5_000: "y" * 5_000, **{str(number): 1 for number in range(50)}})
    )

    assert len(found) == MAX_DIFFERENCES
    assert all(len(line) < 700 for line in found)


def test_bodies_nested_without_end_are_compared() -> None:
    deep: Any = [1]
    for _ in range(50_000):
        deep = [deep]

    assert len(request_differences(posted(None), posted(deep))) == 1
    assert len(request_differences(posted(None), posted("[" * 50_000))) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_any_body_equals_itself_and_any_two_can_be_compared(one: Any, other: Any) -> None:
    assert request_differences(posted(one), posted(one)) == []
    assert isinstance(request_differences(posted(one), posted(other)), list)


@given(
    st.text(max_size=40) | st.text(alphabet="htps:/.@%2e?#[]\\evil", max_size=30),
    st.dictionaries(st.text(max_size=5), json_values),
)
@example("https://[::1", {})
@example("https://api.example.com/v1/orders/%", {})
def test_any_written_request_is_compared_or_refused(url: str, query: dict[str, Any]) -> None:
    request = get_order(url=url or "/", query=query)

    assert request_differences(BUILT, request)
    try:
        arguments = infer_arguments(SHOP, request)
    except WrongArguments:
        return
    assert request_differences(build_request(SHOP, arguments), request) == []


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


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("method", ["GET", "POST"])
@given(arguments=scalar_arguments)
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

    assert infer_arguments(config, built) == arguments
    assert request_differences(built, built) == []


@pytest.mark.parametrize(
    ("form", "sent", "value"),
    [
        (NUMBER, "2.5", 2.5),
        (FLAG, "false", False),
        (TEXT, "5", "5"),
        ({}, "5", "5"),
        ({"$ref": "#/$defs/amount"}, "7", 7),
        ({"type": "array", "items": WHOLE}, "7", [7]),
        ({"type": "array", "items": WHOLE}, ["1", "2"], [1, 2]),
        ({"type": "array", "items": TEXT}, [1, True], ["1", "true"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ],
)
def test_values_of_a_query_become_those_of_the_schema(form: Any, sent: Any, value: Any) -> None:
    config = tool(fields={"x": form}, schema={"$defs": {"amount": WHOLE}})

    assert infer_arguments(config, written(url=add_query(f"{BASE}/orders", {"x": sent}))) == {"x": value}
    for query in ({"x": sent}, {"x": value}):
        assert infer_arguments(config, written(query=query)) == {"x": value}


@pytest.mark.parametrize("text", ["NaN", "five", "1" * 5_000, "[" * 4_000, ""])
def test_a_text_in_place_of_a_number_is_refused(text: str) -> None:
    config = tool("/orders", "POST", {"x": NUMBER})

    with pytest.raises(WrongArguments, match="x must be a number; got '"):
        infer_arguments(config, posted({"x": text}))


ITEMS = tool("/orders", "POST", {"a": TEXT, "b": True}, request={"a": "body.lines[0].a", "b": "body.lines[1]"})
WHOLE_BODY = tool("/orders", "POST", {"lines": {"type": "array"}}, request={"lines": "body.$"})


@pytest.mark.parametrize(
    ("config", "body", "arguments"),
    [
        (ITEMS, {"lines": [{"a": "x"}, [2]]}, {"a": "x", "b": [2]}),
        (ITEMS, {"lines": [{"a": 7}]}, {"a": "7"}),
        (ITEMS, {}, {}),
        (WHOLE_BODY, "[1]", {"lines": [1]}),
        (WHOLE_BODY, None, {}),
    ],
)
def test_fields_are_inferred_from_a_body(config: Any, body: Any, arguments: dict[str, Any]) -> None:
    assert infer_arguments(config, posted(body)) == arguments


@pytest.mark.parametrize(
    ("path", "url", "values"),
    [
        ("/a/{x}-{y}", "/a/1-2", {"x": "1", "y": "2"}),
        ("/a/{x}.{y}.json", "/a/b.c.json", {"x": "b", "y": "c"}),
        ("/{x}/{y}/", "/1/2", {"x": "1", "y": "2"}),
        ("/a/{x}{y}", "/a/12", {"x": "1", "y": "2"}),
        ("/a/{x}-{y}", "/a/1", None),
        ("/a/{x}", "/a/b/c", None),
        ("/a/{x}", "/b/c", None),
        ("/" + "".join(f"{{p{number}}}-" for number in range(60)) + "x", "/" + "-" * 7_000, None),
    ],
)
def test_placeholders_are_inferred_from_a_path(path: str, url: str, values: dict[str, str] | None) -> None:
    names = ["x", "y"] if "{x}" in path else [f"p{number}" for number in range(60)]
    config = tool(path, fields={name: TEXT for name in names if f"{{{name}}}" in path})
    request = written(url=f"{BASE}{url}")
    if values is not None:
        assert infer_arguments(config, request) == values
        return
    with pytest.raises(WrongArguments, match="with values for the placeholders"):
        infer_arguments(config, request)


def test_only_a_header_that_the_configuration_maps_is_inferred() -> None:
    config = tool(fields={"trace": TEXT}, request={"trace": "header.X-Trace"})
    headers = {"x-trace": "t1", "Authorization": "Bearer made-up", "X-Forwarded-Host": "evil.example"}

    assert infer_arguments(config, written(url=f"{BASE}/orders", headers=headers)) == {"trace": "t1"}


def test_a_part_that_the_configuration_does_not_name_is_refused() -> None:
    config = tool("/orders", "POST", {"note": TEXT, "limit": WHOLE}, request={"limit": "query.n"})

    with pytest.raises(WrongArguments) as caught:
        infer_arguments(config, written("POST", f"{BASE}/orders?n=5&debug=1", body={"note": "a", "admin": True}))

    assert caught.value.problems == ["query.debug must be absent, not 1", "body.admin must be absent, not true"]


@pytest.mark.slow
def test_a_thousand_fields_that_are_slow_to_check_are_read_in_a_bounded_number_of_steps() -> None:
    slow = {"anyOf": [{"type": "array", "items": WHOLE}] * 400}
    names = [f"f{number}" for number in range(1_500)]
    config = tool(
        method="POST", fields={name: {"$ref": "#/$defs/slow"} for name in names}, schema={"$defs": {"slow": slow}}
    )

    # Each of them alone could be looked at for a tenth of a second.
    with pytest.raises(WrongArguments, match="f0 must be a list"):
        infer_arguments(config, posted(dict.fromkeys(names, "x")))
