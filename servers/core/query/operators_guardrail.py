"""Ask the operator's own function whether a query may be run; one that fails or hangs refuses it (D-12)."""

import asyncio
import contextlib
import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from loguru import logger

from toolweave.errors import ConfigError
from toolweave.servers.core.query.guardrails import Guardrail, Refusal
from toolweave.servers.core.query.models import Query

_SETTING = "TOOLWEAVE_QUERY_GUARDRAIL"
_FIX = "Name a function that takes a query, as module:attr, or unset it."
RULE = "own_guardrail"
LIMIT_S = 1.0
MOST_AT_ONCE = 8
_LONGEST_REASON = 300
_ASK_OPERATOR = "Ask the operator to look into the server's log."

Function = Callable[[Query], Any]


async def operators_guardrail(target: str, *, limit_s: float = LIMIT_S) -> Guardrail:
    """Load `module:attr`: a function, sync or async, that is given the query and returns None or why it refuses.

    Raises:
        ConfigError: there is no such module or attribute, importing it failed, or it cannot be called.
    """
    function = await asyncio.to_thread(_loaded, target)
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def check(query: Query) -> Refusal | None:
        if turns.locked():
            return Refusal("it is busy with other queries.", "Try again in a moment.")
        await turns.acquire()
        asked = asyncio.ensure_future(_asked(function, query))
        # Who does not answer keeps the turn: of functions that hang there are never more than these.
        asked.add_done_callback(lambda _: turns.release())
        return await _within(asked, limit_s)

    return Guardrail(RULE, check)


async def _within(asked: "asyncio.Future[Any]", limit_s: float) -> Refusal | None:
    try:
        await asyncio.wait({asked}, timeout=limit_s)
    finally:
        if not asked.done():
            asked.cancel()
    if not asked.done() or asked.cancelled():
        logger.error("the guardrail of {} did not answer within {:g} s", _SETTING, limit_s)
        return Refusal("it did not answer in time.", _ASK_OPERATOR)
    if error := asked.exception():
        logger.opt(exception=error).error("the guardrail of {} failed", _SETTING)
        return Refusal("it failed.", _ASK_OPERATOR)
    match asked.result():
        case None:
            return None
        case str(reason):
            return Refusal(reason.strip()[:_LONGEST_REASON] or "it gives no reason.")
    logger.error("the guardrail of {} returned neither None nor a text", _SETTING)
    return Refusal("it answered neither yes nor no.", _ASK_OPERATOR)


async def _asked(function: Function, query: Query) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await _without_exit(function(query))
    answer = await _on_own_thread(partial(function, query))
    return await _without_exit(answer) if inspect.isawaitable(answer) else answer


async def _without_exit(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except SystemExit:
        raise RuntimeError("it raised SystemExit") from None


async def _on_own_thread(call: Callable[[], Any]) -> Any:
    """Call it on a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Any] = loop.create_future()

    def tell(answer: Any, error: BaseException | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result(answer)
        else:
            # What is no Exception would end more than the call.
            harmless = isinstance(error, Exception) and not isinstance(error, StopIteration)
            answered.set_exception(error if harmless else RuntimeError(f"it raised {type(error).__name__}"))

    def run() -> None:
        answer, raised = None, None
        try:
            answer = call()
        except BaseException as error:  # noqa: BLE001  whatever it raises refuses the query
            raised = error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, answer, raised)

    threading.Thread(target=run, name="query guardrail", daemon=True).start()
    return await answered


def _loaded(target: str) -> Function:
    where, _, attribute = target.strip().rpartition(":")
    if not where or not attribute:
        raise ConfigError("it names no module and attribute.", source=_SETTING, fix=_FIX)
    try:
        function: Any = importlib.import_module(where)
        for name in attribute.split("."):
            function = getattr(function, name)
    except AttributeError:
        raise ConfigError(f"the module {where} has no {attribute}.", source=_SETTING, fix=_FIX) from None
    except (Exception, SystemExit) as error:
        logger.opt(exception=error).error("the guardrail of {} cannot be loaded", _SETTING)
        raise ConfigError(
            f"the module {where} cannot be imported: {type(error).__name__}.", source=_SETTING, fix=_FIX
        ) from error
    if not callable(function):
        raise ConfigError(f"{target} cannot be called.", source=_SETTING, fix=_FIX)
    return function  # type: ignore[no-any-return]
