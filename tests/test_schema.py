"""Values are checked against schemas of any origin: problems are short, work is bounded, nothing is fetched."""

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolweave.schema import Schema

TODO: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "priority": {"enum": ["low", "medium", "high"]},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "count": {"type": "integer", "minimum": 1, "maximum": 10},
        "due": {"type": "object", "properties": {"day": {"const": "monday"}}, "required": ["day"]},
    },
    "required": ["title"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ["title is required"]),
        ({"title": 5}, ["title must be a string; got 5"]),
        ({"title": {"a": 1}}, ["title must be a string; got an object"]),
        ({"title": ""}, ["title must satisfy minLength: 1; got ''"]),
        ({"title": "a", "priority": "urgent"}, ["priority must be one of low, medium, high; got 'urgent'"]),
        ({"title": "a", "tags": ["b", 3]}, ["tags[1] must be a string; got 3"]),
        ({"title": "a", "tags": "b"}, ["tags must be a list or null; got 'b'"]),
        ({"title": "a", "count": True}, ["count must be an integer; got true"]),
        ({"title": "a", "count": 0}, ["count must satisfy minimum: 1; got 0"]),
        ({"title": "a", "count": 2.5}, ["count must be an integer; got 2.5"]),
        ({"title": "a", "due": {}}, ["due.day is required"]),
        ({"title": "a", "due": {"day": "friday"}}, ["due.day must satisfy const: monday; got 'friday'"]),
        ({"title": "a", "colour": 1}, ["colour is not a known field; known: title, priority, tags, count, due"]),
        ({"title": None, "count": 99}, ["title must be a string; got null", "count must satisfy maximum: 10; got 99"]),
        ([], ["the arguments must be an object; got a list of 0 items"]),
        ({"title": "a", "count": 3.0}, []),
        ({"title": "a", "tags": None, "priority": "low", "due": {"day": "monday"}}, []),
    ],
)
def test_a_problem_names_the_field_and_its_rule(value: Any, expected: list[str]) -> None:
    assert Schema(TODO).problems(value) == expected
    assert Schema(TODO, well_formed=True).problems(value) == expected


def test_alternatives_of_the_type_of_the_value_are_explained() -> None:
    circle = {"type": "object", "properties": {"radius": {"type": "number"}}, "required": ["radius"]}
    square = {"type": "object", "properties": {"side": {"type": "number"}}, "required": ["side"]}
    schema = {"properties": {"shape": {"oneOf": [circle, square, {"type": "string"}]}}}

    assert Schema(schema).problems({"shape": {}}) == ["shape.radius is required or shape.side is required"]
    assert Schema(schema).problems({"shape": 1}) == ["shape must be an object or a string; got 1"]


def test_many_problems_and_huge_values_give_a_short_text() -> None:
    fields = {f"field_{number}": {"type": "string", "maxLength": 5} for number in range(50)}
    value: dict[str, Any] = dict.fromkeys(fields, "x" * 100000) | {"field_1": 10**50, "field_2": [1] * 9_999}

    problems = Schema({"properties": fields}).problems(value)

    assert len(problems) == 5
    assert problems[0] == f"field_0 must satisfy maxLength: 5; got {'x' * 60!r}… (100000 characters)"
    assert problems[1] == "field_1 must be a string; got a very large number"
    assert problems[2] == "field_2 must be a string; got a list of 9999 items"
    assert sum(map(len, problems)) < 1_000


def test_an_enum_of_thousands_is_shown_in_part() -> None:
    [problem] = Schema({"enum": [f"choice {number}" for number in range(4_000)]}).problems("none")
    assert problem.startswith("the arguments must be one of choice 0, choice 1,")
    assert problem.endswith("choice 11 or 3988 others; got 'none'")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$dynamicRef": "#nowhere"},
        {"type": "string", "pattern": "(?<=lookbehind)x"},
        {"type": "string", "pattern": "["},
        {"type": "string", "pattern": "x" * 5_000},
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_checked_is_no_problem(schema: dict[str, Any]) -> None:
    assert Schema(schema).problems("text") == []


def test_a_check_that_would_double_at_every_level_is_broken_off() -> None:
    forms: dict[str, Any] = {"f0": {"type": "string"}}
    for level in range(60):
        forms[f"f{level + 1}"] = {"anyOf": [{"$ref": f"#/$defs/f{level}"}, {"$ref": f"#/$defs/f{level}"}]}
    assert Schema({"$defs": forms, "$ref": "#/$defs/f60"}).problems(5) == []


def test_an_expression_that_needs_exponential_time_elsewhere_is_matched_in_linear_time() -> None:
    schema = Schema(
        {"properties": {"name": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(b|b)*c": {"type": "null"}}}
    )
    assert schema.problems({"name": "a" * 50_000}) == []
    assert len(Schema({"pattern": "b+", "maxLength": 1}).problems("abc")) == 1, "it is searched anywhere in the text"
    assert schema.problems({"name": "a" * 50_000 + "!"})[0].startswith("name must satisfy pattern: ^(a+)+$; got 'aaa")
    assert schema.problems({"b" * 50_000: 1}) == []
    assert schema.problems({"bbc": 1}) == ["bbc must be null; got 1"]


def test_an_expression_of_another_dialect_lets_every_name_be() -> None:
    schema = Schema({"patternProperties": {"^(?=x)": {"type": "null"}}, "additionalProperties": False})
    assert schema.problems({"y": 1}) == []
    known = Schema({"patternProperties": {"^x-": {}}, "properties": {"a": {}}, "additionalProperties": False})
    assert known.problems({"x-1": 1, "a": 1}) == []
    assert known.problems({"y": 1})[0].startswith("y is not a known field")


def test_equal_items_are_found_in_long_mixed_lists() -> None:
    schema = Schema({"type": "array", "uniqueItems": True})
    mixed: list[Any] = [part for number in range(5_000) for part in (number, {"n": number}, str(number))]
    assert schema.problems(mixed) == []
    assert schema.problems([*mixed, {"n": 7}]) == [
        "the arguments must satisfy uniqueItems: true; got a list of 15001 items"
    ]


DEEP: dict[str, Any] = reduce(lambda schema, _: {"items": schema}, range(1_000), {})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "s3cret"}, "type must be one of array, boolean"),
        ({"type": {"a": "s3cret"}}, "type must be"),
        ({"required": "s3cret"}, "required must be a list"),
        ({"properties": [{"x": "s3cret"}]}, "properties must be an object"),
        ({"anyOf": [{"enum": list(range(6_000))}]}, "it has more than 5000 parts"),
        (
            reduce(lambda schema, _: {"items": schema}, range(1_000), dict[str, Any]()),
            "nested more than 64 levels deep",
        ),
        ({"$schema": {}}, r"\$schema must be a string"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "exclusiveMinimum": True}, "exclusiveMinimum"),
        ({"$schema": "https://example.org/own", "exclusiveMinimum": True}, "exclusiveMinimum"),
    ],
    ids=range(9),
)
def test_an_invalid_schema_is_refused_with_a_reason_that_does_not_repeat_its_values(
    schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        Schema(schema)
    assert "s3cret" not in str(refused.value)


def test_problems_found_before_a_check_took_too_many_steps_are_returned() -> None:
    assert Schema(TODO).problems({"tags": ["a"] * 20_000}) == []
    assert Schema(TODO).problems({"title": 7, "tags": ["a"] * 20_000}) == ["title must be a string; got 7"]


def test_a_schema_is_read_by_the_draft_that_it_names() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 5, "exclusiveMinimum": True}
    assert Schema(schema).problems(5) == ["the arguments must satisfy minimum: 5; got 5"]


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, "", "a", "bb", "low"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=6
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
RULES = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(st.sampled_from(["a", "low", None]), min_size=1, unique=True),
        "minimum": st.integers(-2, 2),
        "maximum": st.sampled_from([0, 1.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$"]),
        "required": st.lists(st.sampled_from("abc"), unique=True),
        "description": st.just("text"),
    },
)
SCHEMAS = st.recursive(
    RULES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(st.sampled_from("abc"), inner),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            **dict.fromkeys(("anyOf", "oneOf"), st.lists(inner, min_size=1, max_size=3)),
            "required": st.lists(st.sampled_from("abc"), unique=True),
        },
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", Draft202012Validator.META_SCHEMA["$id"]])
def test_a_part_that_names_a_draft_of_its_own_is_checked_within_the_same_bounds(draft: str) -> None:
    # Python's engine has lookaheads, and needs exponential time for some patterns; the linear one cannot judge them.
    inner = {"$schema": draft, "pattern": "^(?=b)", "allOf": [{"minLength": 1}] * 9}
    schema = Schema({"properties": {"a": inner}})
    steps = [5_000]
    assert schema.problems({"a": "a"}, steps) == []
    assert steps[0] < 5_000 - 9


def test_the_forms_of_several_schemas_are_checked_within_the_same_steps() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}}
    steps = [150]
    Schema(one, form_steps=steps)
    with pytest.raises(ValueError, match="make them smaller or send fewer tools at once"):
        Schema({"properties": {f"p{n}": one for n in range(9)}}, form_steps=steps)


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-03/schema#"]
)
def test_the_form_of_a_long_list_of_choices_takes_few_steps(draft: str) -> None:
    steps = [2_000]
    Schema({"$schema": draft, "enum": [{"a": number} for number in range(2_000)]}, form_steps=steps)


@given(schema=SCHEMAS, value=VALUES)
def test_a_schema_accepts_what_the_library_accepts_compiled_or_not(schema: dict[str, Any], value: Any) -> None:
    valid = Draft202012Validator(schema).is_valid(value)
    assert (Schema(schema).problems(value) == []) == valid
    assert (Schema(schema, well_formed=True).problems(value) == []) == valid


@pytest.mark.parametrize("value", ["\ud800", "ab" * 9_000_000, reduce(lambda a, _: [a], range(90_000), list[Any]())])
def test_a_value_that_the_library_cannot_check_or_not_quickly_is_checked(value: Any) -> None:
    assert Schema({"type": ["string", "array"]}).problems(value) == []


_MANY: list[Any] = [{"a": number} for number in range(20_000)]
_WIDE = {f"name{number}": number for number in range(20_000)}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"uniqueItems": True}, _MANY),
        ({"uniqueItems": True}, [[*_MANY], [*_MANY, 1]]),
        ({"pattern": "^[a-z]+(b|c)*$"}, "a" * 1_000_000),
        ({"additionalProperties": True, "patternProperties": {"^q": True}}, _WIDE),
        ({"patternProperties": {f"^q{number}": True for number in range(200)}}, _WIDE),
        ({"propertyNames": {"maxLength": 99}}, _WIDE),
    ],
)
def test_a_keyword_that_looks_at_all_of_a_large_value_counts_for_many(rule: dict[str, Any], value: Any) -> None:
    schema = Schema({"$defs": {"slow": rule}, "allOf": [{"$ref": "#/$defs/slow"}] * 800}, well_formed=True)
    steps = [5_000]

    assert schema.problems(value, steps) == []
    assert -5_000 < steps[0] < 0
