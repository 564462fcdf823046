"""Places and JSONPaths are read and checked when a tool is configured, not when an answer arrives."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from toolweave.tool_config import (
    MAX_LOCATION_CHARS,
    MappedLocation,
    PathSteps,
    RequestLocation,
    ResponsePath,
    body_location,
    check_response_path,
    parse_location,
)


class Mapped(BaseModel):
    place: MappedLocation
    path: ResponsePath = "$"


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("path.id", RequestLocation("path", "id")),
        ("query.filter[name]", RequestLocation("query", "filter[name]")),
        ("query.größe.$x", RequestLocation("query", "größe.$x")),
        ("header.X-Trace", RequestLocation("header", "X-Trace")),
        ("body.user.name", RequestLocation("body", "user.name")),
        ("body.$", RequestLocation("body", "$")),
    ],
)
def test_a_place_is_read_and_shown_as_it_is_written(written: str, place: RequestLocation) -> None:
    mapped = Mapped.model_validate({"place": written})

    assert mapped.place == place
    assert mapped.model_dump()["place"] == written


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("a", ("a",)),
        ("user.name", ("user", "name")),
        ("$.user.name", ("user", "name")),
        ("$['a b'][0].c", ("a b", 0, "c")),
        ('lines[99]["it\'s"]', ("lines", 99, "it's")),
        ("user-name", ("user-name",)),
        ("straße.日本", ("straße", "日本")),
        ("$['']", ("",)),
        ("$['__one_side']", ("__one_side",)),
        ("$", ()),
    ],
)
def test_a_place_in_a_body_is_made_of_names_and_indexes(name: str, steps: PathSteps) -> None:
    assert parse_location(f"body.{name}").steps == steps


@pytest.mark.parametrize(
    "written",
    [
        *("", "id", "cookie.id", "body.", "query.", "path", "Body.a", 5, None, ["body.a"]),
        "body.a" * MAX_LOCATION_CHARS,
        *("body.$.*", "body.$..a", "body.a[*]", "body.a[0:2]", "body.$[?@.a]", "body.$['a','b']", "body.a b"),
        *("body.a[-1]", "body.a[100]", "body.a[1000000]", "body.a[99999999999999999999]", "body.a[1e9]", "body.a["),
        *("body.__proto__", "body.a.__class__.b", "body.$['__proto__']", "body.$['\ud800']"),
        *("header.X Trace", "header.X:Y", "header.X\r\nY", "header.Ä", "query.a\nb", "query.\x00", "path.\ud800"),
    ],
)
def test_what_is_no_place_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        Mapped.model_validate({"place": written})


@given(st.lists(st.text(min_size=1, max_size=8) | st.integers(0, 99), max_size=5))
@example(["it's", "a\\b", 'say "x"', "a.b", "[0]", 0, "$"])
def test_the_place_made_of_names_and_indexes_leads_there(steps: list[str | int]) -> None:
    try:
        place = body_location(*steps)
    except ValueError:
        names = [step for step in steps if isinstance(step, str)]
        assert any(
            name.startswith("__") or any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in name) for name in names
        )
        return
    assert place.steps == tuple(steps)
    assert parse_location(str(place)) == place


@pytest.mark.parametrize(
    "path",
    [
        *("$", "$.a", "$['a b']", "$.items[*].id", "$..id", "$[0:3]", "$[-1]", "$['a','b']", "$[?@.price < 10].id"),
        *("$.items[?@.a == $.wanted && length(@.b) > 2 || !@.c]", "$[?@['x'][0] == 'y']", "$.ü"),
    ],
)
def test_paths_into_answers_follow_the_standard(path: str) -> None:
    assert Mapped.model_validate({"place": "query.a", "path": path}).path == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "a", "a.b", "@.a", "$.", "$[", "$ ", " $", "$.a | $.b", "$.a & $.b", "^.a", "$.~a", "$[?@.a =~ /(a+)+/]"),
        *("$[?match(@.a, '(a+)+')]", "$[?search(@.a, 'x')]", "$[?isinstance(@.a, 'str')]", "$[?count(@.*) > 1]"),
        *("$[?@..a]", "$[?@.*]", "$[?@[?@.a]]", "$[?$..a == 1]", "$[1e5]", "$[?@.a == 1e999]", "$[?@.a == -1e999]"),
        *("$[" + "9" * 400 + "]", "$" + ".a" * MAX_LOCATION_CHARS, "$['\\ud800']"),
    ],
)
def test_a_path_that_is_not_standard_or_could_cost_too_much_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        Mapped.model_validate({"place": "query.a", "path": path})


path_like = st.text(alphabet="$@.*[]()?!&|=<>'\"\\:,-0129eEab_ lengthmacu", max_size=30)


@given(st.text(max_size=20) | path_like | path_like.map("${}".format) | path_like.map("$[?{}]".format))
@example("$[?" + "(" * 240 + "@.a" + ")" * 240 + "]")
@example("$[?" + "!" * 400 + "@.a]")
@example("$" + "[0" * 240)
def test_any_text_is_a_path_or_a_value_error(text: str) -> None:
    for check, value in ((check_response_path, text), (parse_location, f"body.{text}")):
        refusal = ""
        try:
            check(value)
        except ValueError as error:
            refusal = str(error)
        assert len(refusal) < 300
