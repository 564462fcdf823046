"""Run the agent loop on one task and return its answer as text (D-4, A-02, A-03)."""

from typing import cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from toolweave.config.mcp import McpServers, read_servers
from toolweave.errors import ModelError
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.background_loop import background_loop, require_no_event_loop
from toolweave.graphs.plane_tools import open_task_tools
from toolweave.nodes.agent import UNATTENDED_KEY, SystemPrompt
from toolweave.nodes.chat_models import ModelSource, as_lazy_chat_model
from toolweave.nodes.model_turn import CUT_ANSWER_PROBLEMS
from toolweave.nodes.tool_catalog import ToolCatalog, Tools, as_catalog


class AgentLoop:
    """An agent that works on one task per `run`, with tools or MCP servers, and a model, as for `build_agent_loop`.

    With MCP servers, each run connects to all of them and disconnects afterwards. It starts when all have answered, or
    after two seconds with the tools available by then. A warning names the missing servers; their tools join later
    (A-07). Runs are independent: nothing is stored between them. They are unattended: a call that needs a person's
    approval or answer returns an error to the model (S-07).
    """

    def __init__(
        self,
        tools: Tools | McpServers,
        model: ModelSource,
        max_iterations: int = 10,
        *,
        system_prompt: SystemPrompt = None,
    ) -> None:
        self._model = as_lazy_chat_model(model)
        self._max_iterations = max_iterations
        self._system_prompt = system_prompt
        servers = read_servers(tools)
        self._tool_source = as_catalog(cast("Tools", tools)) if servers is None else servers
        if max_iterations < 1:
            raise ValueError("max_iterations must be at least 1")

    async def run(self, task: str) -> str:
        """Run the agent on `task` and return the answer that the model gives without calling tools.

        Raises:
            IterationLimitError: the model still calls tools after `max_iterations` calls; the text has the number.
            ModelError: the endpoint failed, or the answer was cut off or filtered.
            ServerUnavailable: MCP servers were given and none of them offers a tool.
            ValueError: the task is empty.
        """
        if not task.strip():
            raise ValueError("the task is empty")
        if not isinstance(self._tool_source, tuple):
            return await self._run_graph(task, self._tool_source)
        async with open_task_tools(self._tool_source) as available:
            return await self._run_graph(task, available)

    def run_sync(self, task: str) -> str:
        """Call `run` from code without an event loop.

        Raises:
            RuntimeError: an event loop runs in this thread already; await `run` there.
        """
        require_no_event_loop("run_sync()", "await loop.run(task)")
        return background_loop.run(self.run(task))

    async def _run_graph(self, task: str, catalog: ToolCatalog) -> str:
        graph = build_agent_loop(
            tools=catalog,
            model=self._model,
            max_iterations=self._max_iterations,
            on_iteration_limit="error",
            system_prompt=self._system_prompt,
        )
        unattended: RunnableConfig = {"configurable": {UNATTENDED_KEY: True}}
        result = await graph.ainvoke({"messages": [HumanMessage(task)]}, unattended)
        if problem := CUT_ANSWER_PROBLEMS.get(result["status"]):
            raise ModelError(f"{problem} Ask for less at once." if result["status"] == "length" else problem)
        return str(result["messages"][-1].text)
