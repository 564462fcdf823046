"""Define the state of the script writer: from the URL of a page to the script, plain JSON values (A-04)."""

from typing import Annotated, Any, Literal, NotRequired

from langgraph.channels import EphemeralValue
from pydantic import Field
from typing_extensions import TypedDict

from toolweave.nodes.script.page import Page
from toolweave.nodes.script.writing.writing_state import Draft, Notes, ScriptMetadata, WritingState

# What schemas say of the input: forms, documents and models that call the script writer as a tool read it.
URL = Field(description="Address of the page that the script is written from, http or https.")
LANGUAGE = Field(
    description="Language of the script, such as `German` or `ja`; by default that of the settings, or the page's.",
    json_schema_extra={"default": None},
)
FetchWay = Literal["http", "agent"]


class ScriptInput(TypedDict):
    """What a caller gives; a thread's next run does not inherit the language."""

    url: Annotated[str, URL]
    language: NotRequired[Annotated[str | None, LANGUAGE, EphemeralValue]]


class ScriptSource(TypedDict):
    """Where a script comes from: the page as it was found."""

    url: str
    title: str
    site: str
    language: str


def source_of(page: Page) -> ScriptSource:
    """Tell of a page what is shown beside its script."""
    return ScriptSource(url=page["final_url"], title=page["title"], site=page["site"], language=page["language"])


class ScriptOutput(TypedDict):
    """What a run leaves; a run that fails has the error of its thread instead."""

    script: Annotated[dict[str, Any] | None, Field(description="A VideoScript: title, description and sections.")]
    source: Annotated[ScriptSource | None, Field(description="The page that it was written from.")]
    metadata: ScriptMetadata


class ScriptState(ScriptInput, WritingState):
    """The input, the output, and what the nodes tell each other; the page stays for a run that goes on later."""

    fetch_way: FetchWay
    source: ScriptSource | None


class ScriptUpdate(TypedDict, total=False):
    """What the first node and those that fetch change."""

    url: str
    settings: dict[str, Any]
    fetch_way: FetchWay
    page: Page | None
    source: ScriptSource | None
    script: dict[str, Any] | None
    draft: Draft | None
    notes: list[Notes] | None
    metadata: ScriptMetadata
    model_usage: None
