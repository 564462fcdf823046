"""Read the functions of ours on a stack, joined with the stacks that created its tasks and gave its thread its work.

A task's stack begins where its coroutine does: `await asyncio.create_task(work())` instead of `await work()` would
otherwise hide everything above it. So the stack is remembered at each creation of a task and each `call_soon` while
`JoinedStacks` is in use, and at each item that is put on a `SimpleQueue`: executors and threads of ours take their work
from one.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import starlette.routing
from scripts.house import ROOMS

PROJECT = Path(__file__).parents[2]
Stack = tuple[CodeType, ...]
"""Code from the innermost function outwards."""


class JoinedStacks:
    """The stacks of one event loop, from `joining` on: a task that was created before has only its own."""

    def __init__(self) -> None:
        self._creators: WeakKeyDictionary[asyncio.Task[Any], Stack] = WeakKeyDictionary()
        self._handed_over: Stack = ()
        self._scheduled: Stack = ()
        self._loop_thread = threading.get_ident()
        self._joining: asyncio.Task[Any] | None = None

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Remember the creators of tasks and the work for threads while the block runs."""
        loop = asyncio.get_running_loop()
        before, self._joining = loop.get_task_factory(), asyncio.current_task()
        loop.set_task_factory(self._create)
        sys.setprofile(self._notice)
        with pytest.MonkeyPatch.context() as scheduling:
            for name in ("call_soon", "call_soon_threadsafe"):
                scheduling.setattr(loop, name, partial(self._schedule, getattr(loop, name)))
            try:
                yield
            finally:
                sys.setprofile(None)
                loop.set_task_factory(before)

    def now(self) -> Stack:
        """Read the joined stack of the caller."""
        return self._joined(sys._getframe(1))

    def _joined(self, frame: FrameType | None) -> Stack:
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        if threading.get_ident() != self._loop_thread:
            return (*codes, *self._handed_over)
        task = asyncio.current_task()
        return (*codes, *(self._creators.get(task, ()) if task else self._scheduled))

    def _schedule(self, call_soon: Any, callback: Any, *arguments: Any, **options: Any) -> Any:
        scheduled = self.now()

        def joined(*arguments: Any) -> None:
            self._scheduled = scheduled
            callback(*arguments)
            self._scheduled = ()

        return call_soon(joined, *arguments, **options)

    def _create(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        self._creators[task] = self.now()
        return task

    def _notice(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(getattr(called, "__self__", None), SimpleQueue):
            # Work of tasks that were there before, such as the clock of crons, has no part in it.
            task = asyncio.current_task() if threading.get_ident() == self._loop_thread else None
            if task is self._joining or task in self._creators:
                self._handed_over = self._joined(frame)


def from_route(stack: Stack) -> Stack:
    """Cut a stack off where Starlette's router called the route: middleware is around every request.

    Raises:
        StopIteration: no route called it, so something hides a part of the stack.
    """
    outside = next(n for n, code in enumerate(stack) if code.co_filename == starlette.routing.__file__)
    return stack[:outside]


def ours(stack: Stack) -> list[str]:
    """Name the functions of ours in a stack, each once, the outermost first."""
    places = {code: Path(code.co_filename).resolve() for code in reversed(stack)}
    rooms = [PROJECT / room for room in ROOMS]
    return [
        f"{place.relative_to(PROJECT)}: {code.co_qualname}"
        for code, place in places.items()
        if any(place.is_relative_to(room) for room in rooms)
    ]
