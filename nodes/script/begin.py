"""Begin a script job: read what it is to do, and forget what the thread's last job left (A-04, A-05)."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Protocol, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, ValidationError

from toolweave.config.problems import sentences
from toolweave.config.script_job import ScriptJob
from toolweave.errors import StageFailed
from toolweave.nodes.model_usage import usage_summary
from toolweave.nodes.progress_events import tell_progress
from toolweave.nodes.script.fetching.tool_document import is_web_address
from toolweave.nodes.script.page_address import shown_url
from toolweave.nodes.script.script_state import LANGUAGE, URL, ScriptState, ScriptUpdate
from toolweave.nodes.script.writing.writing_state import ScriptMetadata

ReadJob = Callable[[], ScriptJob]
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


def _address(url: str) -> str:
    if not _ADDRESS.fullmatch(url) or not is_web_address(url):
        raise ValueError("must be the address of a page, such as https://example.org/article")
    if "@" in urlsplit(url).netloc:
        raise ValueError("must hold no credentials (name@host): models, tools and logs would see them")
    return url


class CheckedInput(BaseModel):
    """The page's address and the wished language; `ScriptInput`, checked."""

    model_config = ConfigDict(hide_input_in_errors=True, str_strip_whitespace=True)

    url: Annotated[StrictStr, AfterValidator(_address), URL] = Field(min_length=1, max_length=8_192)
    language: Annotated[StrictStr | None, LANGUAGE] = Field(default=None, max_length=100)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Read the input of a graph, which is checked by nobody else.

        Raises:
            StageFailed: it is not what the script writer takes; names the fields and what was expected of each.
        """
        try:
            return cls.model_validate({name: state[name] for name in cls.model_fields if state.get(name) is not None})
        except ValidationError as error:
            found = [f"{'.'.join(map(str, place))} {problem}" for place, problem in sentences(error)]
            raise StageFailed(f"The script cannot be begun: {'; '.join(found)}.") from None


class BeginNode(Protocol):
    """The first node."""

    def __call__(self, state: ScriptState) -> Awaitable[ScriptUpdate]:
        """Return the state that a job begins with."""
        ...


def begin_node(read_job: ReadJob) -> BeginNode:
    """Make the node; it asks `read_job`, on a thread, what this job is to do.

    It raises StageFailed for an input that is none, and what `read_job` raises (ConfigError).
    """

    async def begin(state: ScriptState) -> ScriptUpdate:
        # First: by this event the server knows that the run is a job, also when it fails at once.
        tell_progress(0.0, "")
        wanted = CheckedInput.of(state)
        tell_progress(0.0, f"Beginning with {shown_url(wanted.url)}")
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
