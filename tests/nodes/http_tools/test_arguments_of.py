"""A bare request is read back into the arguments that make it, and what no arguments make is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import BASE, FLAG, NUMBER, TEXT, WHOLE, tool, written
from toolweave.nodes.http_tools.comparison import differences, infer_arguments
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, add_query, build_request


def posted(body: Any) -> HTTPRequestSpec:
    return written("POST", f"{BASE}/orders", body=body)


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
    assert differences(built, built) == []


@pytest.mark.parametrize(
    ("form", "sent", "value"),
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
        ({"type": "array", "items": WHOLE}, ["1", "2"], [1, 2]),
        ({"type": "array", "items": TEXT}, [1, True], ["1", "true"]),
        ({"type": "array", "items": TEXT}, 1, ["1"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ],
)
def test_values_of_a_query_become_those_of_the_schema(form: Any, sent: Any, value: Any) -> None:
    config = tool(fields={"x": form}, schema={"$defs": {"amount": WHOLE}})

    assert infer_arguments(config, written(url=add_query(f"{BASE}/orders", {"x": sent}))) == {"x": value}
    for query in ({"x": sent}, {"x": value}):
        assert infer_arguments(config, written(query=query)) == {"x": value}


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "five", "1" * 5_000, "[" * 4_000, "0" * 7_000, ""])
def test_a_text_that_is_no_number_stays_one_and_is_refused_as_such(text: str) -> None:
    config = tool("/orders", "POST", {"x": NUMBER})

    with pytest.raises(WrongArguments, match="x must be a number; got '"):
        infer_arguments(config, posted({"x": text}))


def test_fields_are_read_from_the_items_of_a_body() -> None:
    config = tool("/orders", "POST", {"a": TEXT, "b": True}, request={"a": "body.lines[0].a", "b": "body.lines[1]"})
    body = {"lines": [{"a": "x"}, [2]]}

    assert infer_arguments(config, posted(body)) == {"a": "x", "b": [2]}
    assert infer_arguments(config, posted({"lines": [{"a": 7}]})) == {"a": "7"}
    assert infer_arguments(config, posted({})) == {}


def test_a_number_becomes_the_text_that_a_schema_wants() -> None:
    config = tool("/orders/{id}", "POST", {"id": TEXT, "zip": TEXT})

    assert infer_arguments(config, written("POST", f"{BASE}/orders/5", body={"zip": 107})) == {"id": "5", "zip": "107"}


@pytest.mark.parametrize(
    ("path", "url", "values"),
    [
        ("/a/{x}-{y}", "/a/1-2", {"x": "1", "y": "2"}),
        ("/a/{x}.{y}.json", "/a/b.c.json", {"x": "b", "y": "c"}),
        ("/a({x})", "/a(7)", {"x": "7"}),
        ("/{x}/{y}/", "/1/2", {"x": "1", "y": "2"}),
        ("/a/{x}{y}", "/a/12", {"x": "1", "y": "2"}),
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
        assert infer_arguments(config, request) == values
        return
    with pytest.raises(WrongArguments, match="with values for the placeholders"):
        infer_arguments(config, request)


def test_a_field_in_a_header_is_read_and_no_other_header() -> None:
    config = tool(fields={"trace": TEXT}, request={"trace": "header.X-Trace"})
    headers = {"x-trace": "t1", "Authorization": "Bearer made-up", "X-Forwarded-Host": "evil.example"}

    arguments = infer_arguments(config, written(url=f"{BASE}/orders", headers=headers))

    assert arguments == {"trace": "t1"}
    assert build_request(config, arguments).headers == {"X-Trace": "t1"}


def test_a_whole_body_is_read_back() -> None:
    config = tool("/orders", "POST", {"lines": {"type": "array"}}, request={"lines": "body.$"})

    assert infer_arguments(config, posted([1, {"a": 2}])) == {"lines": [1, {"a": 2}]}
    assert infer_arguments(config, posted("[1]")) == {"lines": [1]}
    assert infer_arguments(config, posted(None)) == {}


def test_what_the_configuration_does_not_name_is_refused() -> None:
    config = tool("/orders", "POST", {"note": TEXT, "limit": WHOLE}, request={"limit": "query.n"})

    with pytest.raises(WrongArguments) as caught:
        infer_arguments(config, written("POST", f"{BASE}/orders?n=5&debug=1", body={"note": "a", "admin": True}))

    assert caught.value.problems == [
        "query.debug must be absent, not 1",
        "body.admin must be absent, not true",
    ]


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
