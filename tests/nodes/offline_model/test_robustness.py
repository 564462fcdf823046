"""Any text, any tools, any results: the model never fails, and its arguments fit the schema."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from tests.nodes.offline_model.judging import offline_model
from tests.nodes.offline_model.other_tools import OTHER_TOOLS
from tests.nodes.offline_model.todo_backend import seeded_backend
from toolweave.nodes.offline_model.tools import invalid_parameters

TOOLS = [*seeded_backend().tools(), *OTHER_TOOLS]

VERBS = "add create delete mark set change find show rename tagged"
NOUNS = (
    'task todo it that 3 #5 tomorrow 2026-03-09 home priority title "milk" https://a.example/b notes.txt a@b.example'
)
OTHERS = "done urgent high all and then to the as 'x y' , . ? ! : - ,"
_WORDS = f"{VERBS} {NOUNS} {OTHERS}".split()
texts = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join),
    st.lists(st.one_of(st.sampled_from(_WORDS), st.text(max_size=5)), max_size=15).map(" ".join),
)
NAMES = "id title query due_date before tags status limit url path email city count text description done flag value x"
names = st.sampled_from(NAMES.split())
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5))


PLAIN_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "boolean"},
    {"type": ["string", "null"]},
    {"enum": [None, 1, "a"]},
    {"type": "string", "minLength": 3, "maxLength": 6},
    *({"type": "string", "format": name} for name in ("date", "date-time", "uri", "email")),
    *({"type": "string", "pattern": pattern} for pattern in ("^[a-z]+$", "(a+)+$", "[")),
    {"type": "integer", "minimum": 2, "maximum": 5, "multipleOf": 2},
    {"type": "number", "minimum": 5, "maximum": -5},
]
property_schemas = st.recursive(
    st.sampled_from(PLAIN_SCHEMAS),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 3)}),
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=5,
)


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, property_schemas, max_size=5))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    verb = draw(st.sampled_from(["create", "list", "update", "search", "delete", "get", "send", "frobnicate", "x"]))
    noun = draw(st.sampled_from(["todo", "todos", "file", "city", "thing", "日本"]))
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": f"{verb}_{noun}", "description": draw(st.text(max_size=20)), "parameters": schema},
    }


@pytest.mark.requirement("O-01")
@given(texts, texts)
def test_any_text_is_answered(first: str, second: str) -> None:
    model = offline_model().bind_tools(TOOLS)
    reply = model.invoke([HumanMessage(first)])

    again = model.invoke([HumanMessage(first), AIMessage(reply.text or "Which?"), HumanMessage(second)])

    for message in (reply, again):
        assert message.text or message.tool_calls


@pytest.mark.requirement("O-02")
@given(texts, st.lists(tools(), min_size=1, max_size=4))
def test_the_arguments_of_a_call_always_fit_the_schema(text: str, offered: list[dict[str, Any]]) -> None:
    reply = offline_model().bind_tools(offered).invoke(text)

    for call in reply.tool_calls:
        schemas = [one["function"]["parameters"] for one in offered if one["function"]["name"] == call["name"]]
        assert any(_fits(schema, call["args"]) for schema in schemas)


def _fits(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    # No argument has to match a pattern that is invalid or backtracks without end.
    text = json.dumps(schema).replace(json.dumps("["), '"."').replace("(a+)+$", ".")
    return Draft202012Validator(json.loads(text)).is_valid(arguments)


@given(texts, st.lists(tools(), min_size=1, max_size=3))
def test_a_required_call_has_every_required_argument(text: str, offered: list[dict[str, Any]]) -> None:
    reply = offline_model().bind_tools(offered, tool_choice="any").invoke(text)

    assert len(reply.tool_calls) == 1
    call = reply.tool_calls[0]
    assert any(
        set(one["function"]["parameters"]["required"]) <= set(call["args"])
        for one in offered
        if one["function"]["name"] == call["name"]
    )


json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["id", "title", "data", "error", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(
    st.one_of(json_values.map(json.dumps), st.text(max_size=100)),
    st.sampled_from(["create_todo", "list_todos", "update_todo", "search_todos", "delete_todo", "echo", "x"]),
    st.dictionaries(st.sampled_from(["id", "title", "query"]), scalars, max_size=3),
    st.sampled_from(["Delete the milk task", "Add a task to buy milk", "mark it as done", "show my tasks"]),
)
def test_any_result_is_answered(content: str, name: str, arguments: dict[str, Any], text: str) -> None:
    messages = [
        HumanMessage(text),
        AIMessage("", tool_calls=[tool_call(name=name, args=arguments, id="c1")]),
        ToolMessage(content, tool_call_id="c1"),
        AIMessage("Which one?"),
        HumanMessage("the first one"),
    ]
    for upto in (3, 5):
        reply = offline_model().bind_tools(TOOLS).invoke(messages[:upto])
        assert reply.text or reply.tool_calls


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}},
        {"type": "object", "properties": {"a": {"type": "unheard-of"}}},
        {"type": "object", "properties": ["a"], "required": "a"},
        {},
        None,
    ],
)
def test_a_tool_with_an_unreadable_schema_is_called(schema: object) -> None:
    broken = {"type": "function", "function": {"name": "create_note", "description": None, "parameters": schema}}

    model = offline_model().bind(tools=[broken, {"type": "web_search"}, "nonsense", None])

    assert model.invoke("hello").text.splitlines()[1] == "- create_note"
    assert [call["name"] for call in model.invoke("Create a note").tool_calls] == ["create_note"]
    assert [call["name"] for call in model.invoke("hello", tool_choice="any").tool_calls] == ["create_note"]


def test_a_refused_argument_is_named() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"pattern": "^x"}, "c": {"pattern": "(x+)+y"}}}

    assert invalid_parameters(schema, {"a": "one", "b": "y", "c": "z"}) == {"a", "b", "c"}
    assert invalid_parameters(schema, {"a": 1, "b": "xy"}) == set()


_HOSTILE = {
    "one word": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "a long title": "add a task to " + "word " * 200_000,
    "commas": "delete task 1" + ", " * 100_000,
    "quotes": '"' * 100_000,
    "sentences": "add a task. " * 50_000,
    "numbers": "delete task " + "1, " * 50_000,
    "articles": "mark the " * 100_000 + " as done",
    "slashes": "a/" * 200_000,
    "ats": "a@" * 200_000,
    "statements": "x is " * 100_000 + "done",
    "dates": "due on 2026-01-01 " * 20_000,
    "private characters": "\ue000" * 50_000 + "\x00\u2029" * 50_000,
    "negations": "not " * 100_000 + "done",
    "adverbs": "mark it as " + "really " * 100_000,
}


@pytest.mark.parametrize("kind", _HOSTILE)
def test_a_huge_hostile_text_is_read_in_bounded_time(kind: str) -> None:
    done = threading.Event()

    def read() -> None:
        offline_model().bind_tools(TOOLS).invoke(_HOSTILE[kind])
        done.set()

    threading.Thread(target=read, daemon=True).start()

    assert done.wait(timeout=60), "an expression of the rules runs away on this text"
