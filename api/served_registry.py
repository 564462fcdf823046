"""Open the tool registry for the application's lifetime, and give it to each request (W-01)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

from fastapi import Depends, Request
from loguru import logger

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, PersistenceError
from toolweave.servers.registry.current import REGISTRY
from toolweave.servers.registry.repository import RegisteredTools, open_tool_registry


@asynccontextmanager
async def open_served_registry(settings: Settings) -> AsyncIterator[RegisteredTools | None]:
    """Open and publish the registry; None, with a line in the log, where it cannot be opened now.

    Everything else works without it; whoever needs it opens it again for each use, until that succeeds.
    """
    async with AsyncExitStack() as stack:
        try:
            registry = await stack.enter_async_context(open_tool_registry(settings))
        except (ConfigError, PersistenceError) as error:
            logger.error("There is no tool registry until this is mended: {}", error)
            yield None
            return
        REGISTRY.publish(registry)
        stack.callback(REGISTRY.withdraw, registry)
        yield registry


async def the_registry(request: Request) -> AsyncIterator[RegisteredTools]:
    """Give the application's registry, or open it for this request. Raises PersistenceError."""
    opened: RegisteredTools | None = request.app.state.registry
    if opened is not None:
        yield opened
        return
    async with AsyncExitStack() as stack:
        try:
            registry = await stack.enter_async_context(open_tool_registry(request.app.state.settings))
        except ConfigError as error:
            raise PersistenceError(str(error)) from error
        yield registry


Registry = Annotated[RegisteredTools, Depends(the_registry)]
