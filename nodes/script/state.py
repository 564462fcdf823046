"""State of a script job, and the node that reads the job and clears the previous one (A-04, A-05)."""

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
    """Write a progress event, percent and a sentence for the user, to the graph's custom stream."""
    get_stream_writer()({"type": "progress", "progress": round(percent, 1), "message": message})


MAX_URL_CHARS = 300
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")


def safe_url(url: str) -> str:
    """Return a URL for messages: without credentials, and shortened."""
    # Shorten after removing credentials: half of a long password would look like a host.
    plain = _CREDENTIALS.sub("", url)
    shown = redact_text(plain[:MAX_URL_CHARS])
    return shown if len(plain) <= MAX_URL_CHARS else f"{shown}…"


class ScriptDraft(TypedDict):
    """The model's answer before validation: the parsed object or None, and the text."""

    written: dict[str, Any] | None
    text: str


class ScriptMetadata(TypedDict):
    """Metadata of a run: `usage` has the token totals of its model calls."""

    usage: dict[str, Any]


# Descriptions in the input schema: for forms, API documents and models that call the script writer as a tool.
URL = Field(description="Address of the page that the script is written from, http or https.")
LANGUAGE = Field(
    description="Language of the script, such as `German` or `ja`; by default that of the settings, or the page's.",
    json_schema_extra={"default": None},
)
FetchMethod = Literal["http", "agent"]


class ScriptInput(TypedDict):
    """Input of a run; the thread's next run does not inherit the language."""

    url: Annotated[str, URL]
    language: NotRequired[Annotated[str | None, LANGUAGE, EphemeralValue]]


class ScriptSource(TypedDict):
    """The page that a script was written from."""

    url: str
    title: str
    site: str
    language: str


def script_source(page: ArticlePage) -> ScriptSource:
    """Return the facts of a page that are shown with its script."""
    return ScriptSource(url=page["final_url"], title=page["title"], site=page["site"], language=page["language"])


class ScriptOutput(TypedDict):
    """Output of a run; a failed run has its thread's error instead."""

    script: Annotated[dict[str, Any] | None, Field(description="A VideoScript: title, description and sections.")]
    source: Annotated[ScriptSource | None, Field(description="The page that it was written from.")]
    metadata: ScriptMetadata


class ScriptState(ScriptInput, ScriptOutput, total=False):
    """The input, the output, and the values that nodes pass on; the page is stored for a run that is resumed.

    `settings` is a ScriptSettings as JSON; if absent, the documented defaults apply. `notes` has heading and text of
    each section of notes on an article that is too long for one model call.
    """

    settings: dict[str, Any] | None
    fetch_way: FetchMethod
    page: ArticlePage
    draft: ScriptDraft | None
    notes: list[dict[str, str]] | None
    model_usage: Annotated[list[ModelUsage], merge_model_usage]


ScriptUpdate = dict[str, Any]
"""State update of a node; absent keys stay unchanged."""
ScriptNode = Callable[..., Awaitable[ScriptUpdate]]
"""A node; nodes that call the model also take the config."""

ReadJob = Callable[[], ScriptJob]


def _check_page_url(url: str) -> str:
    if not is_web_url(url):
        raise ValueError("must be the URL of a page, such as https://example.org/article")
    if "@" in urlsplit(url).netloc:
        raise ValueError("must not contain credentials (name@host): models, tools and logs would see them")
    return url


class CheckedScriptInput(BaseModel):
    """Validated `ScriptInput`: the page's URL and the requested language."""

    model_config = ConfigDict(hide_input_in_errors=True, str_strip_whitespace=True)

    url: Annotated[StrictStr, AfterValidator(_check_page_url), URL] = Field(min_length=1, max_length=8_192)
    language: Annotated[StrictStr | None, LANGUAGE] = Field(default=None, max_length=100)


def begin_node(read_job: ReadJob) -> ScriptNode:
    """Return the node that reads the job with `read_job`, in a thread, and resets the state.

    It raises StageFailed for an invalid input, and the errors of `read_job` (ConfigError).
    """

    async def begin(state: ScriptState) -> ScriptUpdate:
        # First: the server recognises a job by this event, even if the run fails at once.
        report_progress(0.0, "")
        checked = validate_graph_input(CheckedScriptInput, state, "The script cannot be started")
        report_progress(0.0, f"Starting with {safe_url(checked.url)}")
        job = await asyncio.to_thread(read_job)
        override = {"language": checked.language} if checked.language else {}
        return {
            "url": checked.url,
            "settings": {**job.settings.model_dump(mode="json"), **override},
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
