"""Define what the writing of a script reads and leaves in a graph's state: plain JSON values."""

from collections.abc import Awaitable
from typing import Annotated, Any, NotRequired, Protocol

from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from toolweave.nodes.model_usage import ModelUsage, gathered
from toolweave.nodes.script.page import Page


class Draft(TypedDict):
    """What the model wrote, unchecked: the object, or None where there is none, and the answer as text."""

    written: dict[str, Any] | None
    text: str


class Notes(TypedDict):
    """What is kept of a section of an article that is too long to be read at once."""

    heading: str
    text: str


class ScriptMetadata(TypedDict):
    """What a run has used: `usage` sums the tokens of its model calls."""

    usage: dict[str, Any]


class WritingState(TypedDict):
    """What is written, from which page, and by which settings.

    `settings` are a ScriptSettings as JSON, the documented defaults where they are absent.
    """

    page: Page
    settings: NotRequired[dict[str, Any] | None]
    draft: NotRequired[Draft | None]
    notes: NotRequired[list[Notes] | None]
    script: NotRequired[dict[str, Any] | None]
    metadata: NotRequired[ScriptMetadata]
    model_usage: NotRequired[Annotated[list[ModelUsage], gathered]]


class WritingUpdate(TypedDict, total=False):
    """What write and validate change."""

    draft: Draft | None
    notes: list[Notes] | None
    script: dict[str, Any] | None
    metadata: ScriptMetadata
    model_usage: list[ModelUsage] | None


class WritingNode(Protocol):
    """A node that writes or repairs."""

    def __call__(self, state: WritingState, config: RunnableConfig) -> Awaitable[WritingUpdate]:
        """Return what changes."""
        ...
