"""A written request is the built one however it is spelled; any other is told apart in words that help to repair it."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import BASE, FLAG, TEXT, WHOLE, tool, written
from toolweave.nodes.http_tools.comparison import MAX_DIFFERENCES, differences, infer_arguments
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request

SHOP = tool("/orders/{id}", fields={"id": TEXT, "limit": WHOLE, "open": FLAG, "tags": {"type": "array", "items": TEXT}})
GIVEN = {"id": "a b/é"[:3], "limit": 5, "open": True, "tags": ["x", "y"]}
BUILT = build_request(SHOP, GIVEN)
URL = f"{BASE}/orders/a%20b"
QUERY = {"limit": 5, "open": True, "tags": ["x", "y"]}


def asked(*, method: str = "GET", url: str = URL, **parts: Any) -> HTTPRequestSpec:
    return written(method, url, **parts)


def posted(body: Any) -> HTTPRequestSpec:
    return written("POST", f"{BASE}/orders", body=body)


@pytest.mark.parametrize(
    "other",
    [
        asked(query=QUERY),
        asked(method="get", query={"limit": "5", "open": "true", "tags": ["x", "y"], "none": None}),
        asked(query={"limit": 5.0, "open": "true", "tags": ["x", "y", None]}),
        asked(url=f"{BASE}/orders/../orders/./a%20b", query=QUERY),
        asked(url=f"{URL}?limit=5&open=true&tags=x&tags=y"),
        asked(url=f"{URL}?limit=5&tags=x&tags=y", query={"open": True, "limit": "5"}),
        asked(url="https://API.example.com:443/v1/orders/a%20b/", query=QUERY),
        asked(url="HTTPS://api.example.com/v1/%6frders/%61%20b#top", query=QUERY),
        asked(url="/v1/orders/a%20b", query=QUERY),
        asked(query=QUERY, body={}),
        asked(query=QUERY, body=""),
        asked(query=QUERY, headers={"Host": "evil.example", "Authorization": "Bearer made-up"}),
    ],
)
def test_the_same_request_is_recognised_however_it_is_spelled(other: HTTPRequestSpec) -> None:
    assert differences(BUILT, other) == []
    assert infer_arguments(SHOP, other) == GIVEN


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (asked(method="DELETE", query=QUERY), ["method must be GET, not DELETE"]),
        *(
            (asked(url=f"{host}/v1/orders/a%20b", query=QUERY), [f"url must be {URL}, not {host}/v1/orders/a%20b"])
            for host in (
                "https://evil.example",
                "http://api.example.com",
                "https://api.example.com:8443",
                "https://api.example.com.evil.example",
            )
        ),
        (
            asked(url="//evil.example/v1/orders/a%20b", query=QUERY),
            ["url cannot be used: Only URLs that begin with http:// or https:// are requested."],
        ),
        (asked(url=f"{BASE}/orders/7", query=QUERY), [f"url must be {URL}, not {BASE}/orders/7"]),
        (asked(url=f"{BASE}/orders/{{id}}", query=QUERY), [f"url must be {URL}, not {BASE}/orders/%7Bid%7D"]),
        (asked(query={**QUERY, "limit": 50}), ["query.limit must be 5, not 50"]),
        (asked(query={**QUERY, "tags": ["y", "x"]}), ["query.tags must be x,y, not y,x"]),
        (asked(query={**QUERY, "open": 1}), ["query.open must be true, not 1"]),
        (asked(url=f"{URL}?limit=6", query=QUERY), ["query.limit must be 5, not 6,5"]),
        (asked(query={"open": True, "tags": ["x", "y"]}), ["query.limit must be 5, not absent"]),
        (asked(query={**QUERY, "admin": 1}), ["query.admin must be absent, not 1"]),
        (asked(query=QUERY, body={"a": 1}), ["body.a must be absent, not 1"]),
        (asked(query=QUERY, body="text"), ["body must be absent, not text"]),
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
    assert differences(BUILT, asked(url=url, query=QUERY))
    with pytest.raises(WrongArguments):
        infer_arguments(SHOP, asked(url=url, query=QUERY))


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
        ({**BODY, "admin": 1}, ["body.admin must be absent, not 1"]),
        ({**BODY, "lines": [{"n": 1}]}, ["body.lines[1].n must be 2.5, not absent"]),
        ({**BODY, "lines": [{"n": 1}, {"n": 3}]}, ["body.lines[1].n must be 2.5, not 3"]),
        ({**BODY, "user": {"name": "Bob", "age": 30}}, ["body.user.name must be Ann, not Bob"]),
    ],
)
def test_what_differs_in_a_body_is_named_by_its_place(body: Any, said: list[str]) -> None:
    assert differences(POSTED, posted(body)) == said


@pytest.mark.parametrize("body", [None, [], "not json", [[]] * 3])
def test_another_body_lacks_every_value(body: Any) -> None:
    assert [line for line in differences(POSTED, posted(body)) if "not absent" in line] == [
        "body.ok must be true, not absent",
        "body.user.name must be Ann, not absent",
        "body.user.age must be 30, not absent",
        "body.lines[0].n must be 1, not absent",
        "body.lines[1].n must be 2.5, not absent",
    ]


def test_only_so_many_differences_are_named_and_none_at_length() -> None:
    said = differences(posted({}), posted({"x" * 5_000: "y" * 5_000, **{str(number): 1 for number in range(50)}}))

    assert len(said) == MAX_DIFFERENCES
    assert all(len(line) < 700 for line in said)


def test_bodies_nested_without_end_are_compared() -> None:
    deep: Any = [1]
    for _ in range(50_000):
        deep = [deep]

    assert len(differences(posted(None), posted(deep))) == 1
    assert len(differences(posted(None), posted("[" * 50_000))) == 1
    assert len(differences(BUILT, asked(query={**QUERY, "limit": {"a": deep}}))) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_any_body_is_the_same_as_itself_and_any_two_can_be_compared(one: Any, other: Any) -> None:
    assert differences(posted(one), posted(one)) == []
    assert isinstance(differences(posted(one), posted(other)), list)


@given(
    st.text(max_size=40) | st.text(alphabet="htps:/.@%2e?#[]\\evil", max_size=30),
    st.dictionaries(st.text(max_size=5), json_values),
)
@example("https://[::1", {})
@example("https://api.example.com/v1/orders/%", {})
def test_any_written_request_is_compared_or_refused_in_words(url: str, query: dict[str, Any]) -> None:
    request = asked(url=url or "/", query=query)

    assert differences(BUILT, request)
    try:
        arguments = infer_arguments(SHOP, request)
    except WrongArguments:
        return
    assert differences(build_request(SHOP, arguments), request) == []


def test_a_list_in_a_query_may_be_written_with_commas() -> None:
    assert differences(BUILT, asked(query={**QUERY, "tags": "x,y"})) == []
