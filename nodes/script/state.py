"""Define the state of a script job, read what it is to do, and forget what the last job left (A-04, A-05)."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NotRequired
from urllib.parse import urlsplit

from langgraph.channels import EphemeralValue
from langgraph.config import get_stream_writer
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr
from typing_extensions import TypedDict

from toolweave.config.documents import validate_graph_input
from toolweave.config.script_job import ScriptJob
from toolweave.nodes.model_turn import ModelUsage, merge_model_usage, usage_summary
from toolweave.nodes.script.page import ArticlePage, is_web_url
from toolweave.redact import redact_text


def report_progress(percent: float, message: str) -> None:
    """Write a progress event, percent and a sentence for a person, to the custom stream of the graph."""
    get_stream_writer()({"type": "progress", "progress": round(percent, 1), "message": message})


MAX_URL_CHARS = 300
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")


def safe_url(url: str) -> str:
    """Give a URL as messages may show it: without credentials, and not too long."""
    # Cut afterwards: half of a long password would look like a host.
    bare = _CREDENTIALS.sub("", url)
    shown = redact_text(bare[:MAX_URL_CHARS])
    return shown if len(bare) <= MAX_URL_CHARS else f"{shown}…"


class ScriptDraft(TypedDict):
    """What the model wrote, unchecked: the object, or None where there is none, and the answer as text."""

    written: dict[str, Any] | None
    text: str


class ScriptMetadata(TypedDict):
    """What a run has used: `usage` sums the tokens of its model calls."""

    usage: dict[str, Any]


# What schemas say of the input: forms, documents and models that call the script writer as a tool read it.
URL = Field(description="Address of the page that the script is written from, http or https.")
LANGUAGE = Field(
    description="Language of the script, such as `German` or `ja`; by default that of the settings, or the page's.",
    json_schema_extra={"default": None},
)
FetchMethod = Literal["http", "agent"]


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


def script_source(page: ArticlePage) -> ScriptSource:
    """Tell of a page what is shown beside its script."""
    return ScriptSource(url=page["final_url"], title=page["title"], site=page["site"], language=page["language"])


class ScriptOutput(TypedDict):
    """What a run leaves; a run that fails has the error of its thread instead."""

    script: Annotated[dict[str, Any] | None, Field(description="A VideoScript: title, description and sections.")]
    source: Annotated[ScriptSource | None, Field(description="The page that it was written from.")]
    metadata: ScriptMetadata


class ScriptState(ScriptInput, ScriptOutput, total=False):
    """The input, the output, and what the nodes tell each other; the page stays for a run that goes on later.

    `settings` are a ScriptSettings as JSON, the documented defaults where they are absent; `notes` are heading and text
    of each section of an article that is too long to be read at once.
    """

    settings: dict[str, Any] | None
    fetch_way: FetchMethod
    page: ArticlePage
    draft: ScriptDraft | None
    notes: list[dict[str, str]] | None
    model_usage: Annotated[list[ModelUsage], merge_model_usage]


ScriptUpdate = dict[str, Any]
"""What a node writes; absent keys stay as they are."""
ScriptNode = Callable[..., Awaitable[ScriptUpdate]]
"""A node; one that calls the model also takes the config."""

ReadJob = Callable[[], ScriptJob]


def _check_page_url(url: str) -> str:
    if not is_web_url(url):
        raise ValueError("must be the address of a page, such as https://example.org/article")
    if "@" in urlsplit(url).netloc:
        raise ValueError("must hold no credentials (name@host): models, tools and logs would see them")
    return url


class CheckedScriptInput(BaseModel):
    """The page's address and the wished language; `ScriptInput`, checked."""

    model_config = ConfigDict(hide_input_in_errors=True, str_strip_whitespace=True)

    url: Annotated[StrictStr, AfterValidator(_check_page_url), URL] = Field(min_length=1, max_length=8_192)
    language: Annotated[StrictStr | None, LANGUAGE] = Field(default=None, max_length=100)


def begin_node(read_job: ReadJob) -> ScriptNode:
    """Make the node; it asks `read_job`, on a thread, what this job is to do.

    It raises StageFailed for an input that is none, and what `read_job` raises (ConfigError).
    """

    async def begin(state: ScriptState) -> ScriptUpdate:
        # First: by this event the server knows that the run is a job, also when it fails at once.
        report_progress(0.0, "")
        wanted = validate_graph_input(CheckedScriptInput, state, "The script cannot be begun")
        report_progress(0.0, f"Beginning with {safe_url(wanted.url)}")
        job = await asyncio.to_thread(read_job)
        given = {"language": wanted.language} if wanted.language else {}
        return {
            "url": wanted.url,
            "settings": {**job.settings.model_dump(mode="json"), **given},
            "fetch_way": "agent" if job.mcp else "http",
            "page": None,
            "source": None,
            "script": None,
            "draft": None,
            "notes": None,
            "metadata": ScriptMetadata(usage=usage_summary([])),
            "model_usage": None,
        }

    return begin
