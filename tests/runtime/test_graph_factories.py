"""A graph factory is called in whatever form it was written, and gets what it asks for."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.fixtures.logged import logged
from toolweave.errors import ConfigError, NotFound
from toolweave.runtime.caller import USER, Caller, User, calling
from toolweave.runtime.graphs import GraphRegistry


class Told(TypedDict, total=False):
    told: Any


@dataclass
class Wish:
    colour: str = "grey"


class Order(BaseModel):
    colour: str = "grey"


def telling(what: Any) -> "StateGraph[Any, Any, Any, Any]":
    return StateGraph(Told).add_node("tell", lambda _state: {"told": what}).add_edge(START, "tell")


def plain() -> Any:
    return telling("nothing")


def by_name(config: Any) -> Any:
    return telling(config["configurable"]["x"])


def by_annotation(settings: RunnableConfig) -> Any:
    return telling(settings["configurable"]["x"])


def by_place(anything: Any) -> Any:
    return telling(anything["configurable"]["x"])


def positional(config: RunnableConfig, /) -> Any:
    return telling(config["configurable"]["x"])


async def awaited(config: RunnableConfig) -> Any:
    return telling(config["configurable"]["x"]).compile()


@contextmanager
def opened(config: RunnableConfig) -> Iterator[Any]:
    yield telling(config["configurable"]["x"])


@asynccontextmanager
async def opened_async(config: RunnableConfig) -> AsyncIterator[Any]:
    yield telling(config["configurable"]["x"]).compile()


class Maker:
    def __call__(self, config: RunnableConfig) -> Any:
        return telling(config["configurable"]["x"])


def with_default(size: int = 3) -> Any:
    return telling(size)


def registry(factory: object) -> GraphRegistry:
    return GraphRegistry({"g": factory}, {"g": None}, checkpointer=InMemorySaver(), store=InMemoryStore())


async def told(factory: object, **how: Any) -> Any:
    config: RunnableConfig = {"configurable": {"thread_id": "1", "x": "from config"}}
    async with registry(factory).open("g", config, **how) as graph:
        return (await graph.ainvoke({}, config))["told"]


@pytest.mark.parametrize(
    "factory",
    [by_name, by_annotation, by_place, positional, awaited, opened, opened_async, Maker()],
    ids=lambda factory: getattr(factory, "__name__", "object"),
)
async def test_a_factory_of_any_form_gets_the_config(factory: Callable[..., Any]) -> None:
    assert await told(factory) == "from config"


async def test_a_factory_without_arguments_or_with_defaults_gets_none() -> None:
    assert await told(plain) == "nothing"
    assert await told(with_default) == 3


async def test_a_context_manager_is_left_when_the_use_ends() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def factory() -> AsyncIterator[Any]:
        events.append("entered")
        yield telling("x")
        events.append("left")

    async with registry(factory).open("g") as graph:
        await graph.ainvoke({}, {"configurable": {"thread_id": "1"}})
        assert events == ["entered"]
    assert events == ["entered", "left"]


async def test_a_runtime_tells_why_it_is_called_and_for_whom() -> None:
    def factory(config: RunnableConfig, runtime: ServerRuntime[Wish]) -> Any:
        wish = runtime.execution_runtime.context if runtime.execution_runtime else None
        user = runtime.user.identity if runtime.user else None
        return telling([runtime.access_context, repr(wish), user, type(runtime.store).__name__, "x" in config])

    assert await told(factory) == ["threads.read", "None", None, "InMemoryStore", False]
    made = await told(factory, access="threads.create_run", context={"colour": "red"})
    assert made[:3] == ["threads.create_run", repr(Wish("red")), None]
    with calling(Caller(User({"identity": "ada"}))):
        assert (await told(factory))[2] == "ada"


async def test_the_user_of_a_run_is_the_one_who_created_it() -> None:
    def factory(runtime: ServerRuntime) -> Any:  # type: ignore[type-arg]
        return telling(runtime.ensure_user().identity)

    config: RunnableConfig = {"configurable": {"thread_id": "1", USER: User({"identity": "creator"})}}
    with calling(Caller(User({"identity": "somebody else"}))):
        async with registry(factory).open("g", config, access="threads.create_run") as graph:
            assert (await graph.ainvoke({}, config))["told"] == "creator"


@pytest.mark.parametrize(("schema", "seen"), [(Order, "colour='red'"), (Wish, "Wish(colour='red')")])
async def test_the_context_is_of_the_class_that_the_annotation_names(schema: Any, seen: str) -> None:
    def factory(runtime: Any) -> Any:
        return telling(str(runtime.execution_runtime.context))

    factory.__annotations__["runtime"] = ServerRuntime[schema]
    assert seen in await told(factory, access="threads.create_run", context={"colour": "red"})


async def test_annotations_that_do_not_exist_at_run_time_leave_the_names() -> None:
    def factory(config: "NoSuchName", runtime: "NoSuchName") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return telling([config["configurable"]["x"], runtime.access_context])

    assert await told(factory, access="threads.update") == ["from config", "threads.update"]


async def test_a_graph_with_a_checkpointer_and_store_of_its_own_gets_ours_with_one_warning() -> None:
    with logged() as said:
        served = registry(lambda: telling("x").compile(checkpointer=InMemorySaver(), store=InMemoryStore()))
        for _ in range(2):
            async with served.open("g") as graph:
                assert graph.checkpointer is not None
                assert graph.name == "g"
    assert said == [
        "graph g was compiled with a checkpointer of its own; the server's is used",
        "graph g was compiled with a store of its own; the server's is used",
    ]


async def test_a_factory_that_makes_no_graph_is_named() -> None:
    with pytest.raises(ConfigError, match="the factory of graph 'g' made a int, not a graph"):
        async with registry(lambda: 3).open("g"):
            pass


async def test_an_unknown_graph_is_not_found() -> None:
    with pytest.raises(NotFound):
        async with registry(plain).open("other"):
            pass


def test_a_user_is_what_the_sdk_calls_one() -> None:
    user = User({"identity": 7, "team": "red", "permissions": ["read"]})
    assert (user.identity, user.display_name, user.is_authenticated) == ("7", "7", True)
    assert (user["team"], user.team, "team" in user, list(user.permissions)) == ("red", "red", True, ["read"])
    assert set(user) == {"identity", "display_name", "is_authenticated", "permissions", "team"}
    assert user == User(user.members())
    assert not hasattr(user, "absent")
