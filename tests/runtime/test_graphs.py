"""Targets of langgraph.json are imported, or refused with place and reason; factories get their arguments."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
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
from toolweave.api.langgraph.app import prepare_imports
from toolweave.config.langgraph_json import GraphEntry, LangGraphJson
from toolweave.errors import ConfigError
from toolweave.runtime.caller import USER_KEY, Caller, User, use_caller
from toolweave.runtime.graphs import GraphRegistry, load_graph, load_target


class Result(TypedDict, total=False):
    result: Any


@dataclass
class Wish:
    colour: str = "grey"


class Order(BaseModel):
    colour: str = "grey"


def returning(what: Any) -> "StateGraph[Any, Any, Any, Any]":
    return StateGraph(Result).add_node("return", lambda _state: {"result": what}).add_edge(START, "return")


def plain() -> Any:
    return returning("nothing")


def by_name(config: Any) -> Any:
    return returning(config["configurable"]["x"])


def by_annotation(settings: RunnableConfig) -> Any:
    return returning(settings["configurable"]["x"])


def by_place(anything: Any) -> Any:
    return returning(anything["configurable"]["x"])


def positional(config: RunnableConfig, /) -> Any:
    return returning(config["configurable"]["x"])


async def awaited(config: RunnableConfig) -> Any:
    return returning(config["configurable"]["x"]).compile()


@contextmanager
def opened(config: RunnableConfig) -> Iterator[Any]:
    yield returning(config["configurable"]["x"])


@asynccontextmanager
async def opened_async(config: RunnableConfig) -> AsyncIterator[Any]:
    yield returning(config["configurable"]["x"]).compile()


class Maker:
    def __call__(self, config: RunnableConfig) -> Any:
        return returning(config["configurable"]["x"])


def with_default(size: int = 3) -> Any:
    return returning(size)


def registry(factory: object) -> GraphRegistry:
    return GraphRegistry({"g": factory}, {"g": None}, checkpointer=InMemorySaver(), store=InMemoryStore())


async def result_of(factory: object, **how: Any) -> Any:
    config: RunnableConfig = {"configurable": {"thread_id": "1", "x": "from config"}}
    async with registry(factory).open("g", config, **how) as graph:
        return (await graph.ainvoke({}, config))["result"]


@pytest.mark.parametrize(
    "factory",
    [by_name, by_annotation, by_place, positional, awaited, opened, opened_async, Maker()],
    ids=lambda factory: getattr(factory, "__name__", "object"),
)
async def test_a_factory_of_any_form_gets_the_config(factory: Callable[..., Any]) -> None:
    assert await result_of(factory) == "from config"


async def test_a_factory_without_arguments_or_with_defaults_gets_none() -> None:
    assert await result_of(plain) == "nothing"
    assert await result_of(with_default) == 3


async def test_a_context_manager_is_left_when_the_use_ends() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def factory() -> AsyncIterator[Any]:
        events.append("entered")
        yield returning("x")
        events.append("left")

    async with registry(factory).open("g") as graph:
        await graph.ainvoke({}, {"configurable": {"thread_id": "1"}})
        assert events == ["entered"]
    assert events == ["entered", "left"]


async def test_a_runtime_has_the_purpose_the_context_and_the_user() -> None:
    def factory(config: RunnableConfig, runtime: ServerRuntime[Wish]) -> Any:
        wish = runtime.execution_runtime.context if runtime.execution_runtime else None
        user = runtime.user.identity if runtime.user else None
        return returning([runtime.access_context, repr(wish), user, type(runtime.store).__name__, "x" in config])

    assert await result_of(factory) == ["threads.read", "None", None, "InMemoryStore", False]
    made = await result_of(factory, access="threads.create_run", context={"colour": "red"})
    assert made[:3] == ["threads.create_run", repr(Wish("red")), None]
    with use_caller(Caller(User({"identity": "ada"}))):
        assert (await result_of(factory))[2] == "ada"


async def test_the_user_of_a_run_is_the_one_who_created_it() -> None:
    def factory(runtime: ServerRuntime) -> Any:  # type: ignore[type-arg]
        return returning(runtime.ensure_user().identity)

    config: RunnableConfig = {"configurable": {"thread_id": "1", USER_KEY: User({"identity": "creator"})}}
    with use_caller(Caller(User({"identity": "somebody else"}))):
        async with registry(factory).open("g", config, access="threads.create_run") as graph:
            assert (await graph.ainvoke({}, config))["result"] == "creator"


@pytest.mark.parametrize(("schema", "seen"), [(Order, "colour='red'"), (Wish, "Wish(colour='red')")])
async def test_the_context_is_of_the_class_that_the_annotation_names(schema: Any, seen: str) -> None:
    def factory(runtime: Any) -> Any:
        return returning(str(runtime.execution_runtime.context))

    factory.__annotations__["runtime"] = ServerRuntime[schema]
    assert seen in await result_of(factory, access="threads.create_run", context={"colour": "red"})


async def test_annotations_that_do_not_exist_at_run_time_leave_the_names() -> None:
    def factory(config: "NoSuchName", runtime: "NoSuchName") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return returning([config["configurable"]["x"], runtime.access_context])

    assert await result_of(factory, access="threads.update") == ["from config", "threads.update"]


async def test_a_graph_with_a_checkpointer_and_store_of_its_own_gets_ours_with_one_warning() -> None:
    with logged() as lines:
        served = registry(lambda: returning("x").compile(checkpointer=InMemorySaver(), store=InMemoryStore()))
        for _ in range(2):
            async with served.open("g") as graph:
                assert graph.checkpointer is not None
                assert graph.name == "g"
    assert lines == [
        "graph g was compiled with a checkpointer, which the server replaces by its own",
        "graph g was compiled with a store, which the server replaces by its own",
    ]


async def test_a_factory_that_makes_no_graph_is_named() -> None:
    with pytest.raises(ConfigError, match="the factory of graph 'g' returned a int, not a graph"):
        async with registry(lambda: 3).open("g"):
            pass


def test_a_user_is_what_the_sdk_calls_one() -> None:
    user: Any = User({"identity": 7, "team": "red", "permissions": ["read"]})
    assert (user.identity, user.display_name, user.is_authenticated) == ("7", "7", True)
    assert (user["team"], user.team, "team" in user, list(user.permissions)) == ("red", "red", True, ["read"])
    assert set(user) == {"identity", "display_name", "is_authenticated", "permissions", "team"}
    assert user == User(vars(user))
    assert not hasattr(user, "absent")


def config(folder: Path, code: str) -> LangGraphJson:
    (folder / "broken.py").write_text(code, encoding="utf-8")
    return LangGraphJson(path=folder / "langgraph.json", graphs={"mine": GraphEntry(target="./broken.py:graph")})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1\nraise RuntimeError('no key')\n", "RuntimeError: no key"),
        ("class Odd(Exception): pass\nraise Odd\n", "Odd"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'"),
        ("1 +\n", "invalid syntax"),
    ],
)
def test_an_error_of_an_import_is_one_line_with_its_place(code: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_graph(config(tmp_path, code), "mine")
    text = str(raised.value)
    assert text.startswith(f"{tmp_path}/langgraph.json: graph 'mine': cannot load './broken.py:graph': ")
    assert reason in text
    assert "broken.py" in text.partition(reason)[2]
    assert "\n" not in text


def test_a_failure_further_down_names_the_line_that_raised(tmp_path: Path) -> None:
    (tmp_path / "deeper.py").write_text("\n\nraise ValueError('deep')\n", encoding="utf-8")
    code = f"import importlib.util as u\ns = u.spec_from_file_location('deeper', {str(tmp_path / 'deeper.py')!r})\n"
    with pytest.raises(ConfigError) as raised:
        load_graph(config(tmp_path, f"{code}s.loader.exec_module(u.module_from_spec(s))\n"), "mine")
    assert f"ValueError: deep ({tmp_path}/deeper.py:3)" in str(raised.value)


def test_an_absent_attribute_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'broken\.py' has no 'graph'"):
        load_target("broken.py:graph", config(tmp_path, "other = 1\n").path.parent)
    with pytest.raises(ConfigError, match="no file"):
        load_target("absent.py:graph", tmp_path)
    with pytest.raises(ConfigError, match="names no attribute"):
        load_target("broken.py", tmp_path)


def test_a_file_is_loaded_once_under_a_name_that_every_process_gives_it(tmp_path: Path) -> None:
    (tmp_path / "value.py").write_text("class Value: pass\n", encoding="utf-8")
    first, second = (load_target("value.py:Value", tmp_path) for _ in range(2))
    assert first is second
    name = getattr(first, "__module__", "")
    assert name.startswith("_served_value_")
    # The same text in another process: a digest, not Python's own hash, which differs from one to the next.
    assert len(name.removeprefix("_served_value_")) == 12


def test_a_relative_import_is_refused_with_the_form_that_works(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"relative import.*package\.module:name"):
        load_graph(config(tmp_path, "from .beside import graph\n"), "mine")


def test_a_package_in_the_src_folder_of_a_dependency_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = tmp_path / "src" / "package_in_src"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").write_text("graph = 'found'\n", encoding="utf-8")
    served = config(tmp_path, "from package_in_src.words import graph\n")
    prepare_imports(served)
    assert load_graph(served, "mine") == "found"
