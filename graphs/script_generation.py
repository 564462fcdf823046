"""Generate the script of a narrated video from a web page, as a Python call without a server (A-04)."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any, ParamSpec

from langchain_core.runnables import RunnableConfig
from loguru import logger

from toolweave.config.mcp import McpConfig, mcp_from_dict, mcp_variables
from toolweave.config.script_job import ScriptJob, load_required_servers
from toolweave.config.script_settings import ScriptSettings, load_script_settings
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError
from toolweave.graphs.background_loop import background_loop, require_no_event_loop
from toolweave.graphs.script_writer import build_script_writer
from toolweave.nodes.agent import UNATTENDED_KEY
from toolweave.nodes.chat_models import ModelSource, build_chat_model, close_chat_model, settings_for_script
from toolweave.nodes.script.fetching.fetch_plain import PlainFetch
from toolweave.nodes.script.script_file import ScriptFile, VideoScript

P = ParamSpec("P")
Folder = str | Path
OnProgress = Callable[[float, str], Awaitable[None] | None]
"""Receives percent and a short sentence; awaited if it returns an awaitable."""


async def run_script_writer(
    url: str,
    *,
    job: ScriptJob,
    settings: Settings,
    model: ModelSource | None = None,
    language: str | None = None,
    output_dir: Folder | None = None,
    on_progress: OnProgress | None = None,
) -> VideoScript:
    """Run the script writer once in this process; script.yaml is written before progress reaches 100 percent.

    The settings decide how the page is fetched and, without `model`, which model writes. The run is unattended: calls
    that need a person's approval return an error to the model (S-07).

    Raises:
        ConfigError: there is no model, or `output_dir` is not writable; raised before anything is fetched.
        FetchFailed: the page could not be fetched.
        ScriptFailed: no script could be made from the page.
        StageFailed: `url` is not a URL.
        ScriptNotSaved: the script is complete, but could not be written to `output_dir`.
    """
    file = await asyncio.to_thread(ScriptFile, Path(output_dir)) if output_dir is not None else None
    report = _progress_reporter(on_progress)
    async with _open_model(model, settings, job.settings) as writer:
        graph = build_script_writer(model=writer, read_job=lambda: job, fetch=PlainFetch(settings.outbound_allow))
        unattended: RunnableConfig = {"configurable": {UNATTENDED_KEY: True}}
        state: dict[str, Any] = {}
        event: dict[str, Any] = {}
        inputs: Any = {"url": url, "language": language}
        parts: Any = graph.astream(inputs, unattended, stream_mode=["custom", "values"])
        async for mode, part in parts:
            if mode == "values":
                state = part
                continue
            event = part
            if event["progress"] < 100.0:
                await report(event)
    script = VideoScript.model_validate(state["script"])
    if file:
        await asyncio.to_thread(file.write, script)
    await report(event)
    return script


@asynccontextmanager
async def _open_model(model: ModelSource | None, settings: Settings, job: ScriptSettings) -> AsyncIterator[ModelSource]:
    """Yield the model that writes; close it afterwards if it was created here."""
    if model is not None:
        yield model
        return
    created = await asyncio.to_thread(lambda: build_chat_model(settings_for_script(settings, job)))
    try:
        yield created
    finally:
        await close_chat_model(created)


def _progress_reporter(on_progress: OnProgress | None) -> Callable[[Any], Awaitable[None]]:
    """Return a function that forwards progress events to `on_progress` until that fails."""
    callback = on_progress

    async def report(event: Any) -> None:
        nonlocal callback
        # An event without a message only marks the run as a job.
        if callback is None or not event["message"]:
            return
        try:
            answer = callback(event["progress"], event["message"])
            if isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001 - the caller's own code; a script that costs money must not be lost for it
            logger.warning("on_progress failed; it is not called again\n{}", traceback.format_exc().rstrip())
            callback = None

    return report


ScriptConfig = ScriptSettings | str | Path
"""Script settings, or the YAML file that has them; None means the documented defaults."""
McpServerSource = McpConfig | Mapping[str, Any] | str | Path
"""MCP servers: the path of an mcp.jsonc file, its content, or a loaded one."""


async def generate_script_from_url(
    url: str,
    *,
    config: ScriptConfig | None = None,
    output_dir: Folder | None = None,
    on_progress: OnProgress | None = None,
    model: ModelSource | None = None,
) -> VideoScript:
    """Fetch a page by plain HTTP and write the script of a video about its article (A-04).

    CONFIG_PATH and MCP_CONFIG_PATH are ignored: the arguments describe the job.

    Args:
        url: The page, http or https; private addresses only where TOOLWEAVE_OUTBOUND_ALLOW allows them.
        config: The script settings; by default as documented.
        output_dir: The folder for script.yaml; created if it does not exist.
        on_progress: Called with percent (0 to 100, never less than before) and a sentence, and awaited if it is async.
            If it fails, that is logged, it is not called again, and the script is still written.
        model: The model that writes, whatever `config` names; by default the one that `config` or the environment
            names.

    Raises:
        ConfigError: `config` or the environment is wrong, there is no model, or `output_dir` is not writable.
        FetchFailed: the page could not be fetched, or has no article; the text says why.
        ScriptFailed: the model failed, or did not write a valid script after two attempts.
        StageFailed: `url` is not the URL of a page.
        ScriptNotSaved: the script is complete, but its file could not be written; the error has the script.
    """
    settings = load_settings()
    job = ScriptJob(settings=await _script_settings(config))
    return await run_script_writer(
        url, job=job, settings=settings, model=model, output_dir=output_dir, on_progress=on_progress
    )


async def generate_script_from_url_with_agent(
    url: str,
    *,
    mcp_config: McpServerSource,
    config: ScriptConfig | None = None,
    output_dir: Folder | None = None,
    on_progress: OnProgress | None = None,
    model: ModelSource | None = None,
) -> VideoScript:
    """Have an agent fetch a page with the tools of MCP servers, and write the script of a video about it (A-04).

    The servers are connected for this call only. The rest is as in `generate_script_from_url`.

    Args:
        url: The page. The servers' tools fetch it, so the servers decide what is reachable.
        mcp_config: The MCP servers; the variables that they refer to must be set.
        config: The script settings.
        output_dir: The folder for script.yaml.
        on_progress: Called with the progress.
        model: The model that chooses the tools and writes.

    Raises:
        MissingVariable: variables that `mcp_config` refers to are not set.
        FetchFailed: no server is available, no tool returned content, or the agent did not finish; names servers and
            errors.
        ToolweaveError: as `generate_script_from_url`.
    """
    settings = load_settings()
    job = ScriptJob(
        settings=await _script_settings(config), mcp=await asyncio.to_thread(_load_servers, mcp_config, settings)
    )
    return await run_script_writer(
        url, job=job, settings=settings, model=model, output_dir=output_dir, on_progress=on_progress
    )


def _make_sync(generate: Callable[P, Coroutine[Any, Any, VideoScript]]) -> Callable[P, VideoScript]:
    """Return the synchronous form of a function; it calls `on_progress` on another thread.

    It raises RuntimeError where an event loop runs in the thread already.
    """
    name = f"{generate.__name__}_sync"

    @wraps(generate)
    def run(*args: P.args, **kwargs: P.kwargs) -> VideoScript:
        require_no_event_loop(f"{name}()", f"await {generate.__name__}(…)")
        return background_loop.run(generate(*args, **kwargs))

    run.__name__ = run.__qualname__ = name
    return run


generate_script_from_url_sync = _make_sync(generate_script_from_url)
generate_script_from_url_with_agent_sync = _make_sync(generate_script_from_url_with_agent)


async def _script_settings(config: ScriptConfig | None) -> ScriptSettings:
    if isinstance(config, ScriptSettings):
        return config
    return await asyncio.to_thread(lambda: load_script_settings(None if config is None else Path(config).expanduser()))


def _load_servers(mcp: McpServerSource, settings: Settings) -> McpConfig:
    """Load the servers; raise ConfigError if one is misconfigured or none is enabled."""
    if isinstance(mcp, str | Path):
        return load_required_servers(Path(mcp).expanduser(), settings)
    config = mcp if isinstance(mcp, McpConfig) else mcp_from_dict(mcp, mcp_variables(settings), settings=settings)
    for server in config.servers:
        if server.enabled and server.misconfigured:
            raise ConfigError(f"server {server.name!r}: {server.misconfigured}", source=str(config.path))
    if not any(server.enabled for server in config.servers):
        raise ConfigError("enables no MCP server.", source=str(config.path), fix="Enable one that can fetch pages.")
    return config
