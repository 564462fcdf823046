"""Read the `store` section of langgraph.json into what the store works with, loading the embedding it names."""

import inspect
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import ensure_embeddings

from toolweave.config.storage_sections import StoreEntry
from toolweave.config.storage_sections import StoreIndex as IndexSection
from toolweave.errors import ConfigError
from toolweave.runtime.importing import load_target
from toolweave.runtime.persistence.store.sqlite_store import SWEEP_SECONDS, StoreOptions
from toolweave.runtime.persistence.store.store_index import WHOLE_VALUE, StoreIndex

# The prefixes of langchain's init_embeddings; in front of a colon they do not name a module.
PROVIDERS = frozenset(
    {
        "azure_ai",
        "azure_openai",
        "bedrock",
        "cohere",
        "google_genai",
        "google_vertexai",
        "huggingface",
        "mistralai",
        "ollama",
        "openai",
        "openrouter",
    }
)
SOURCE = "langgraph.json, store.index"


def store_options(entry: StoreEntry, folder: Path) -> StoreOptions:
    """Make the store's options; relative paths start at `folder`.

    Raises:
        ConfigError: the embedding cannot be loaded, or is none.
    """
    index = None if entry.index is None else _index(entry.index, folder)
    if entry.ttl is None:
        return StoreOptions(index)
    interval = entry.ttl.sweep_interval_minutes
    sweep_seconds = SWEEP_SECONDS if interval is None else interval * 60
    return StoreOptions(index, entry.ttl.default_ttl, entry.ttl.refresh_on_read, sweep_seconds)


def _index(section: IndexSection, folder: Path) -> StoreIndex:
    return StoreIndex(_embeddings(section.embed, folder), section.dims, section.fields or WHOLE_VALUE)


def _embeddings(embed: str, folder: Path) -> Embeddings:
    provider, _, _ = embed.partition(":")
    if provider in PROVIDERS:
        return _of_provider(embed, provider)
    loaded: Any = load_target(embed, folder)
    if inspect.isclass(loaded) and issubclass(loaded, Embeddings):
        raise ConfigError(f"{embed!r} is a class.", source=SOURCE, fix="Name an object made of it, or a function.")
    if not isinstance(loaded, Embeddings) and not callable(loaded):
        raise ConfigError(
            f"{embed!r} is a {type(loaded).__name__}, which embeds nothing.",
            source=SOURCE,
            fix="Name a function from a list of texts to a list of vectors, or an Embeddings object.",
        )
    return ensure_embeddings(loaded)


def _of_provider(embed: str, provider: str) -> Embeddings:
    try:
        # An extra: the package brings the clients of all providers, few applications need it.
        from langchain.embeddings import init_embeddings  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError as error:
        fix = f"Install langchain and langchain-{provider.replace('_', '-')}, or name a function of your own."
        raise ConfigError(f"{embed!r} needs the package langchain.", source=SOURCE, fix=fix) from error
    try:
        made: Embeddings = init_embeddings(embed)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"{embed!r} cannot be used: {error}.", source=SOURCE) from error
    return made
