"""Run the script writer's way by an agent: real MCP servers, a scripted model, and what came of it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.types import Checkpointer

from tests.fixtures.openai_wire import WireCall, WireRequest, WireServer, WireTurn
from tests.nodes.script.writing import calling, model_at, script
from toolweave.config.mcp import McpConfig, McpServerConfig
from toolweave.config.script_job import ScriptJob
from toolweave.config.script_settings import ScriptSettings
from toolweave.errors import ToolweaveError
from toolweave.graphs.fetch_agent import AgentFetch
from toolweave.graphs.script_writer import ScriptGraph, build_script_writer

FETCHING = str(Path(__file__).parents[1] / "fixtures" / "fetching_server.py")
BEES = "https://site.example/bees"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def fetching(name: str = "web", *only: str, record: Path | None = None, **config: Any) -> McpServerConfig:
    """Configure a server that has all the fetching tools, or `only` some."""
    args = (FETCHING, *(["--only", *only] if only else []), *(["--record", str(record)] if record else []))
    return McpServerConfig(name=name, transport="stdio", command=sys.executable, args=args, timeout_s=20, **config)


def absent(name: str = "gone") -> McpServerConfig:
    """Configure a server whose program does not exist."""
    return McpServerConfig(name=name, transport="stdio", command="/no/such/program", timeout_s=20)


def asks(*calls: tuple[str, dict[str, Any]], **more: Any) -> WireTurn:
    """Have the model call tools."""
    written = tuple(WireCall(name, json.dumps(args), id=f"c{place}") for place, (name, args) in enumerate(calls))
    return WireTurn(calls=written, piece=1_000, usage=USAGE, **more)


DONE = WireTurn(text="It is there.", usage=USAGE)
WRITES = calling(script())


@dataclass
class Job:
    """What came of a job: its state or its failure, the updates of all graphs, the progress and the model's prompts."""

    requests: list[WireRequest]
    state: dict[str, Any] = field(default_factory=dict)
    failure: ToolweaveError | None = None
    updates: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    progress: list[tuple[float, str]] = field(default_factory=list)

    @property
    def said(self) -> str:
        assert self.failure is not None, "the job was expected to fail"
        return str(self.failure)

    @property
    def page(self) -> dict[str, Any]:
        assert self.failure is None, self.failure
        found: dict[str, Any] = self.state["page"]
        return found


@dataclass
class Agent:
    """The script writer with an endpoint whose answers a test writes."""

    server: WireServer

    def graph(
        self, *servers: McpServerConfig, checkpointer: Checkpointer = None, agent: AgentFetch | None = None
    ) -> ScriptGraph:
        job = ScriptJob(ScriptSettings(), McpConfig(servers, Path("mcp.jsonc")))
        return build_script_writer(
            model=model_at(self.server), read_job=lambda: job, checkpointer=checkpointer, agent=agent
        )

    async def run(
        self,
        servers: Sequence[McpServerConfig],
        *turns: WireTurn,
        url: str = BEES,
        agent: AgentFetch | None = None,
    ) -> Job:
        """Run a job while the endpoint gives these answers, and the script after them."""
        self.server.turns[:] = [*turns, WRITES]
        self.server.requests.clear()
        job = Job(self.server.requests)
        try:
            stream: Any = self.graph(*servers, agent=agent).astream(
                {"url": url}, stream_mode=["values", "updates", "custom"], subgraphs=True
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
