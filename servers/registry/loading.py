"""Load the registry's database library with its first use: graphs that may never need it stay light (S-04)."""

from typing import TYPE_CHECKING

from toolweave.config.settings import load_settings

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import sqlalchemy as sa

    from toolweave.servers.registry.repository import RegisteredTools


def url_of_settings() -> "sa.URL | str":
    """Say where the settings put the database; see `opening.database_url`."""
    from toolweave.servers.registry.opening import database_url  # noqa: PLC0415

    return database_url(load_settings())


def open_registry(url: "sa.URL | str") -> "AbstractAsyncContextManager[RegisteredTools]":
    """Open the registry at a URL; see `opening.open_registry_at`."""
    from toolweave.servers.registry.opening import open_registry_at  # noqa: PLC0415

    return open_registry_at(url)
