"""Run the script writer once in this process, for those who want a script and no server (A-04)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from loguru import logger

from toolweave.config.script_job import ScriptJob
from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import Settings
from toolweave.graphs.script_writer import build_script_writer
from toolweave.nodes.chat_model_source import ChatModel
from toolweave.nodes.chat_models import build_chat_model, close_chat_model
from toolweave.nodes.human_interrupt import UNATTENDED
from toolweave.nodes.script.fetching.fetch_plain import plain_fetch
from toolweave.nodes.script.script_file import ScriptFile
from toolweave.nodes.script.writing.script_model import script_endpoint
from toolweave.video_script import VideoScript

OnProgress = Callable[[float, str], Awaitable[None] | None]
"""Is told percent and a short sentence; awaited if it gives something to wait for."""


async def run_script_writer(
    url: str,
    *,
    job: ScriptJob,
    settings: Settings,
    model: ChatModel | None = None,
    language: str | None = None,
    output_dir: Path | None = None,
    on_progress: OnProgress | None = None,
) -> VideoScript:
    """Write the script of a page as `job` says; script.yaml is written before 100 percent are told.

    A page is fetched, and a model chosen unless there is `model`, by `settings`. Nobody is asked: calls that need a
    person's approval end with an error that the model reads (S-07).

    Raises:
        ConfigError: there is no model, or `output_dir` cannot be written to; before anything is fetched.
        FetchFailed: the page could not be had.
        ScriptFailed: no script could be made of it.
        StageFailed: the URL is none.
        ScriptNotKept: there is a script, and it could not be written to `output_dir`.
    """
    file = await asyncio.to_thread(ScriptFile, output_dir) if output_dir else None
    told = _Progress(on_progress)
    async with _opened(model, settings, job.settings) as writing:
        graph = build_script_writer(model=writing, read_job=lambda: job, fetch=plain_fetch(settings))
        nobody_watches: RunnableConfig = {"configurable": {UNATTENDED: True}}
        state: dict[str, Any] = {}
        given: Any = {"url": url, "language": language}
        async for mode, part in graph.astream(given, nobody_watches, stream_mode=["custom", "values"]):
            if mode == "custom":
                await told.event(part)
            elif isinstance(part, dict):
                state = part
    script = VideoScript.model_validate(state["script"])
    if file:
        await asyncio.to_thread(file.write, script)
    await told.end()
    return script


@asynccontextmanager
async def _opened(model: ChatModel | None, settings: Settings, wanted: ScriptSettings) -> AsyncIterator[ChatModel]:
    """Give the model that writes; one that is made here is closed here."""
    if model is not None:
        yield model
        return
    made = await asyncio.to_thread(lambda: build_chat_model(script_endpoint(settings, wanted)))
    try:
        yield made
    finally:
        await close_chat_model(made)


class _Progress:
    """Pass progress on, never backwards; its end is held back until all is done."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._reached = 0.0
        self._end = ""

    async def event(self, event: Any) -> None:
        # An event without a message only marks the run as a job.
        if not isinstance(event, dict) or event.get("type") != "progress" or not event["message"]:
            return
        self._reached = max(self._reached, event["progress"])
        if self._reached >= 100.0:
            self._end = event["message"]
        else:
            await self._tell(self._reached, event["message"])

    async def end(self) -> None:
        await self._tell(100.0, self._end)

    async def _tell(self, percent: float, message: str) -> None:
        if self._on_progress is None:
            return
        try:
            answer = self._on_progress(percent, message)
            if isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001 - the caller's own code; a script that costs money must not be lost for it
            logger.opt(exception=True).warning("on_progress failed; it is not called again")
            self._on_progress = None
