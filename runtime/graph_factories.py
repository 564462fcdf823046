"""Call a graph factory in whatever form it was written, with the arguments it asks for."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import AccessContext, ServerRuntime, _ExecutionRuntime, _ReadRuntime
from pydantic import BaseModel

from toolweave.runtime.caller import User


@dataclass(frozen=True, slots=True)
class GraphUse:
    """What a graph is opened for; `context` belongs to `threads.create_run` alone."""

    access: AccessContext
    config: RunnableConfig
    user: User | None
    store: BaseStore
    context: Mapping[str, Any] | None = None


@asynccontextmanager
async def made_by(factory: Callable[..., Any], use: GraphUse) -> AsyncIterator[object]:
    """Call a factory (a function or coroutine function that gives a graph or a context manager of one)."""
    positional, named = _arguments(factory, use)
    made = factory(*positional, **named)
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with made as graph:
            yield graph
    elif isinstance(made, AbstractContextManager) and not isinstance(made, Pregel):
        with made as graph:
            yield graph
    else:
        yield made


def _arguments(factory: Callable[..., Any], use: GraphUse) -> tuple[list[Any], dict[str, Any]]:
    """Choose by annotation, then by name; the first parameter that neither explains is the config."""
    hints = _hints(factory)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(factory).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if _is_runtime(hint) or (hint is None and parameter.name == "runtime"):
            value: Any = _server_runtime(use, hint)
        elif hint is RunnableConfig or parameter.name == "config" or _unexplained(parameter, positional, named):
            value = use.config
        else:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    return positional, named


def _unexplained(parameter: inspect.Parameter, positional: list[Any], named: dict[str, Any]) -> bool:
    return parameter.default is parameter.empty and not positional and not named


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    target = factory if inspect.isroutine(factory) else type(factory).__call__
    try:
        return get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        # Names that exist for type checkers only.
        return {}


def _is_runtime(hint: Any) -> bool:
    kinds = (ServerRuntime, _ExecutionRuntime, _ReadRuntime)
    return any(hint is kind or get_origin(hint) is kind for kind in kinds)


def _server_runtime(use: GraphUse, hint: Any) -> "_ExecutionRuntime[Any] | _ReadRuntime[Any]":
    if use.access != "threads.create_run":
        return _ReadRuntime(access_context=use.access, user=use.user, store=use.store)
    (schema, *_) = get_args(hint) or (None,)
    context = _typed(schema, use.context)
    return _ExecutionRuntime(access_context=use.access, user=use.user, store=use.store, context=context)


def _typed(schema: Any, context: Mapping[str, Any] | None) -> Any:
    """Make the context an object of the class that the annotation names, as LangGraph does for nodes."""
    if context is None or not isinstance(schema, type):
        return context
    if issubclass(schema, BaseModel) or is_dataclass(schema):
        return schema(**context)
    return context
