"""Run script jobs whose page an agent fetches: real MCP servers, a scripted model, and the job's results."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Checkpointer

from tests.fixtures.openai_wire import WireCall, WireRequest, WireServer, WireTurn
from tests.nodes.model_at import calling, model_at
from tests.nodes.script.writing import script
from toolweave.config.mcp import McpConfig, McpServerConfig
from toolweave.config.script_job import ScriptJob
from toolweave.errors import ToolweaveError
from toolweave.graphs.plane_tools import PlaneTools, open_task_tools
from toolweave.graphs.script_writer import AgentFetch, ScriptGraph, build_script_writer

FETCHING = str(Path(__file__).parents[1] / "fixtures" / "fetching_server.py")
BEES = "https://site.example/bees"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def fetching(name: str = "web", *only: str, record: Path | None = None, **config: Any) -> McpServerConfig:
    """Configure a server that has all the fetching tools, or `only` some."""
    args = (FETCHING, *(["--only", *only] if only else []), *(["--record", str(record)] if record else []))
    return McpServerConfig(name=name, transport="stdio", command=sys.executable, args=args, timeout_s=60, **config)


def absent(name: str = "gone") -> McpServerConfig:
    """Configure a server whose program does not exist."""
    return McpServerConfig(name=name, transport="stdio", command="/no/such/program", timeout_s=60)


def asks(*calls: tuple[str, dict[str, Any]], **more: Any) -> WireTurn:
    """Have the model call tools."""
    written = tuple(WireCall(name, json.dumps(args), id=f"c{place}") for place, (name, args) in enumerate(calls))
    return WireTurn(calls=written, piece=1_000, usage=USAGE, **more)


DONE = WireTurn(text="It is there.", usage=USAGE)
WRITES = calling(script())


def job_with(*servers: McpServerConfig) -> ScriptJob:
    """Return a job whose MCP file names these servers."""
    return ScriptJob(mcp=McpConfig(servers, Path("mcp.jsonc")))


@asynccontextmanager
async def opened_once(*servers: McpServerConfig, **more: Any) -> AsyncIterator[AgentFetch]:
    """Open servers once for many jobs, which all use them whatever their files name."""
    async with open_task_tools(servers) as tools:

        @asynccontextmanager
        async def opened(_servers: Sequence[McpServerConfig]) -> AsyncIterator[PlaneTools]:
            yield tools

        yield AgentFetch(open_tools=opened, **more)


@dataclass
class Job:
    """The result of a job: its state or its failure, all graphs' updates, the progress and the requests."""

    requests: list[WireRequest]
    state: dict[str, Any] = field(default_factory=dict)
    failure: ToolweaveError | None = None
    updates: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    progress: list[tuple[float, str]] = field(default_factory=list)

    @property
    def error(self) -> str:
        assert self.failure is not None, "the job was expected to fail"
        return str(self.failure)

    @property
    def page(self) -> dict[str, Any]:
        assert self.failure is None, self.failure
        found: dict[str, Any] = self.state["page"]
        return found


class Agent:
    """The script writer with an endpoint whose answers a test writes."""

    def __init__(self, server: WireServer) -> None:
        self.server = server
        self.model = model_at(server)

    def graph(
        self, *servers: McpServerConfig, checkpointer: Checkpointer = None, agent: AgentFetch | None = None
    ) -> ScriptGraph:
        job = job_with(*servers)
        return build_script_writer(model=self.model, read_job=lambda: job, checkpointer=checkpointer, agent=agent)

    async def run(
        self,
        servers: Sequence[McpServerConfig],
        *turns: WireTurn,
        url: str = BEES,
        agent: AgentFetch | None = None,
        until: str | None = None,
    ) -> Job:
        """Run a job while the endpoint gives these answers, and the script after them; `until` a node has ended."""
        self.server.turns[:] = [*turns, WRITES]
        self.server.requests.clear()
        job = Job(self.server.requests)
        try:
            saver = InMemorySaver() if until else None
            stream: Any = self.graph(*(servers or [fetching()]), checkpointer=saver, agent=agent).astream(
                {"url": url},
                {"configurable": {"thread_id": "t"}} if until else None,
                stream_mode=["values", "updates", "custom"],
                subgraphs=True,
                interrupt_after=[until] if until else None,
            )
            async for namespace, mode, value in stream:
                if mode == "updates":
                    job.updates.append((namespace, value))
                elif mode == "custom":
                    job.progress.append((value["progress"], value["message"]))
                elif not namespace:
                    job.state = value
        except ToolweaveError as failure:
            job.failure = failure
        job.requests = list(self.server.requests)
        return job
