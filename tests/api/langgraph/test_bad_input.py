"""No request body or path makes the server fail: every refusal is a 4xx with a detail string."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.app_server import AppServer
from toolweave.api.langgraph.components import COMPONENTS

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NOBODY = "00000000-0000-4000-8000-000000000000"
# The server's thread draws from the process's random numbers while Hypothesis makes up the next body.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")

ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=6), children, max_size=3),
    max_leaves=8,
)
# Endpoint and the component that describes its body; the thread is filled in.
POSTS = [
    ("/assistants/search", "AssistantSearchRequest"),
    ("/assistants/count", "AssistantCountRequest"),
    ("/threads", "ThreadCreate"),
    ("/threads/search", "ThreadSearchRequest"),
    ("/threads/count", "ThreadCountRequest"),
    ("/threads/{thread}/state", "ThreadStateUpdate"),
    ("/threads/{thread}/state/checkpoint", "ThreadStateCheckpointRequest"),
    ("/threads/{thread}/history", "ThreadStateSearch"),
    ("/threads/{thread}/runs/wait", "RunCreateStateful"),
    ("/threads/{thread}/runs/stream", "RunCreateStateful"),
    ("/runs/wait", "RunCreateStateless"),
    ("/runs", "RunCreateStateless"),
]


@pytest.fixture(scope="module")
def client(app_server: AppServer) -> Any:
    with httpx.Client(base_url=app_server.url, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def thread(client: httpx.Client) -> str:
    thread_id: str = client.post("/threads", json={"metadata": {"graph_id": "steps"}}).json()["thread_id"]
    client.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "steps", "input": {"n": 1}})
    return thread_id


def body_of(component: str) -> st.SearchStrategy[Any]:
    """Make bodies whose names are right and whose values are anything, now and then right as well."""
    names = COMPONENTS[component]["properties"]
    fields = {name: ANY_JSON | st.sampled_from(choices_of(schema)) for name, schema in names.items()}
    if "assistant_id" in fields:
        fields["assistant_id"] = st.sampled_from(["steps", "steps", "broken", NOBODY]) | ANY_JSON
    fields.pop("after_seconds", None)
    return st.fixed_dictionaries({}, optional=fields) | ANY_JSON


def choices_of(schema: Any) -> list[Any]:
    return schema.get("enum") or [{}, [], "*", 1, True, {"n": 1}, {"thread_id": NOBODY}]


def check(answer: httpx.Response) -> None:
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert isinstance(answer.json()["detail"], str)


@pytest.mark.hypothesis
@pytest.mark.parametrize(("path", "component"), POSTS)
def test_no_body_makes_the_server_fail(client: httpx.Client, thread: str, path: str, component: str) -> None:
    @settings(max_examples=25)
    @given(body=body_of(component))
    def attempt(body: Any) -> None:
        check(client.post(path.format(thread=thread), content=json.dumps(body)))

    attempt()


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff\xfe", b"NaN", b'"\\ud800"', b"[" * 5000, b'{"a":' * 5000])
@pytest.mark.parametrize(("path", "component"), POSTS)
def test_a_non_json_body_is_422(client: httpx.Client, thread: str, path: str, component: str, body: bytes) -> None:
    answer = client.post(path.format(thread=thread), content=body)
    assert (answer.status_code, answer.json()) == (422, {"detail": "Invalid JSON in request body"})


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(part=st.text(st.characters(exclude_characters="/?#", exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_no_path_makes_the_server_fail(client: httpx.Client, thread: str, part: str) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in part.encode())
    for path in (
        f"/threads/{quoted}",
        f"/threads/{thread}/state/{quoted}",
        f"/threads/{thread}/runs/{quoted}",
        f"/assistants/{quoted}/graph",
        f"/assistants/{quoted}",
        f"/runs/{quoted}/stream",
        f"/{quoted}",
        f"/threads/{thread}/history?limit={quoted}&before={quoted}",
        f"/threads/{thread}/runs?limit={quoted}&status={quoted}&select={quoted}",
    ):
        check(client.get(path))


def test_text_of_all_kinds_is_returned_unchanged(client: httpx.Client) -> None:
    words = ["ü€😀", "\u2028", "\x00", "a\r\nb", "</script>"]
    answer = client.post("/runs/wait", json={"assistant_id": "steps", "input": {"n": 2**60, "log": words}})
    assert answer.json() == {"n": 2 * (2**60 + 1), "log": [*words, "add", "double"]}


def test_a_number_too_large_to_store_is_the_runs_error_not_the_servers(client: httpx.Client) -> None:
    answer = client.post("/runs/wait", json={"assistant_id": "steps", "input": {"n": 2**64 - 1}})
    assert answer.status_code == 200
    assert answer.json()["__error__"]["error"] == "TypeError"


# One more than a database column or a bound parameter holds.
TOO_LARGE = 2**63
ITEM = {"namespace": ["numbers"], "key": "k", "value": {"n": TOO_LARGE}}
OUT_OF_RANGE = [
    ("POST", "/store/items/search", {"offset": TOO_LARGE}),
    ("POST", "/store/items/search", {"limit": TOO_LARGE}),
    ("POST", "/store/namespaces", {"max_depth": TOO_LARGE}),
    ("PUT", "/store/items", {**ITEM, "ttl": TOO_LARGE}),
    ("PUT", "/store/items", {**ITEM, "ttl": 1e300}),
    ("POST", "/threads/{thread}/history", {"metadata": {"n": TOO_LARGE}}),
    ("POST", "/threads/{thread}/history", {"limit": TOO_LARGE}),
    ("GET", "/threads/{thread}/history?limit=9223372036854775808", None),
    ("GET", "/threads/{thread}/runs?offset=9223372036854775808", None),
    ("POST", "/threads/search", {"offset": TOO_LARGE}),
    ("POST", "/threads", {"ttl": TOO_LARGE}),
    ("POST", "/assistants/search", {"offset": TOO_LARGE}),
    ("POST", "/assistants/{assistant}/versions", {"offset": TOO_LARGE}),
    ("POST", "/assistants/{assistant}/latest", {"version": TOO_LARGE}),
    ("POST", "/runs/crons/search", {"offset": TOO_LARGE}),
    (
        "POST",
        "/runs/crons",
        {"assistant_id": "steps", "schedule": "0 0 1 1 *", "end_time": "9999-12-31T23:59:59-14:00"},
    ),
    ("POST", "/runs/wait", {"assistant_id": "steps", "config": {"recursion_limit": TOO_LARGE}}),
    ("POST", "/runs", {"assistant_id": "steps", "after_seconds": TOO_LARGE}),
    ("POST", "/runs", {"assistant_id": "steps", "after_seconds": 1e300}),
]
IN_RANGE = [
    ("POST", "/store/items/search", {"offset": TOO_LARGE - 1, "limit": TOO_LARGE - 1}),
    ("POST", "/store/items/search", {"filter": {"n": TOO_LARGE}}),
    ("POST", "/store/items/search", {"filter": {"n": {"$gte": TOO_LARGE}}}),
    ("POST", "/store/namespaces", {"offset": TOO_LARGE - 1, "limit": TOO_LARGE - 1, "max_depth": TOO_LARGE - 1}),
    ("PUT", "/store/items", {**ITEM, "ttl": 52_560_000}),
    ("POST", "/threads/{thread}/history", {"metadata": {"n": TOO_LARGE - 1}}),
    ("POST", "/threads/{thread}/history", {"metadata": {"deep": {"n": TOO_LARGE}}}),
    ("POST", "/threads/search", {"metadata": {"n": TOO_LARGE}, "values": {"n": TOO_LARGE}, "offset": TOO_LARGE - 1}),
    ("POST", "/assistants/search", {"metadata": {"n": TOO_LARGE}, "name": "x" * 70_000}),
    ("POST", "/runs/crons/search", {"metadata": {"n": TOO_LARGE}}),
    ("POST", "/threads", {"metadata": {"n": TOO_LARGE}}),
    ("POST", "/threads/{thread}/state", {"values": {"log": [TOO_LARGE]}, "as_node": "double"}),
    ("POST", "/threads/{thread}/runs/wait", {"assistant_id": "steps", "input": {"log": [TOO_LARGE]}}),
]


def sent(client: httpx.Client, thread: str, method: str, path: str, body: Any) -> httpx.Response:
    (assistant,) = client.post("/assistants/search", json={"graph_id": "steps", "limit": 1}).json()
    return client.request(method, path.format(thread=thread, assistant=assistant["assistant_id"]), json=body)


@pytest.mark.requirement("R-04")
@pytest.mark.parametrize(("method", "path", "body"), OUT_OF_RANGE)
def test_numbers_that_the_database_cannot_hold_are_422(
    client: httpx.Client, thread: str, method: str, path: str, body: Any
) -> None:
    answer = sent(client, thread, method, path, body)
    assert (answer.status_code, type(answer.json()["detail"])) == (422, str)


@pytest.mark.requirement("R-04")
@pytest.mark.parametrize(("method", "path", "body"), IN_RANGE)
def test_the_largest_numbers_and_those_inside_stored_values_are_accepted(
    client: httpx.Client, thread: str, method: str, path: str, body: Any
) -> None:
    answer = sent(client, thread, method, path, body)
    assert answer.status_code in (200, 204), answer.text
    assert b"__error__" not in answer.content
