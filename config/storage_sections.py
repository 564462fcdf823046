"""The `store` and `checkpointer` sections of langgraph.json: semantic search, and how long things are kept."""

from typing import Literal

from pydantic import Field

from toolweave.config.sections import Minutes, Section


class StoreIndex(Section):
    """Semantic search in the store.

    `embed` is `provider:model` or `path/to/file.py:name` (absolute once loaded); `dims` the length of its vectors;
    `fields` the paths in a value that are embedded, None for the whole value.
    """

    embed: str = Field(min_length=1)
    dims: int = Field(gt=0)
    fields: tuple[str, ...] | None = None


class StoreTtl(Section):
    """How long store items live; `default_ttl` None keeps items that ask for nothing, no interval means our own."""

    default_ttl: Minutes | None = None
    refresh_on_read: bool = True
    sweep_interval_minutes: Minutes | None = None


class StoreEntry(Section):
    """The `store` section."""

    index: StoreIndex | None = None
    ttl: StoreTtl | None = None


class CheckpointerTtl(Section):
    """How long threads live after their last change, and what happens then; at most `sweep_limit` in one sweep."""

    strategy: Literal["delete", "keep_latest"] = "delete"
    default_ttl: Minutes | None = None
    sweep_interval_minutes: Minutes | None = None
    sweep_limit: int = Field(default=1000, ge=1)


class CheckpointerEntry(Section):
    """The `checkpointer` section."""

    ttl: CheckpointerTtl | None = None
