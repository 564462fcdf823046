"""Build the graphs that langgraph.json names; servers are connected and models created when a run needs them."""

from loguru import logger

from toolweave.config.settings import load_settings
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.plane_tools import CatalogWithRegisteredTools, CurrentPlaneTools, logged_tools_opener
from toolweave.graphs.script_writer import AgentFetch, build_script_writer
from toolweave.graphs.todo_agent import build_todo_agent
from toolweave.graphs.workflow import build_workflow
from toolweave.nodes.agent import AGENT_PROMPT
from toolweave.nodes.chat_models import LazyChatModel, ScriptModels, build_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.model_endpoint import model_metadata
from toolweave.nodes.script.fetching.fetch_plain import PlainFetch
from toolweave.servers.registry.current import REGISTRY

# A server imports this module; also one of another project shows its operator what we log.
logger.enable("toolweave")
_settings = load_settings()
_model = LazyChatModel(lambda: build_chat_model(load_settings()))
_api_calls = ApiCalls(_settings.outbound_allow, _settings.tool_env)

agent_loop = build_agent_loop(
    tools=CatalogWithRegisteredTools(CurrentPlaneTools(), REGISTRY, _api_calls),
    model=_model,
    max_iterations=_settings.max_iterations,
    on_iteration_limit=_settings.on_iteration_limit,
    system_prompt=AGENT_PROMPT,
    max_tools=_settings.max_tools,
).with_config(metadata=model_metadata(_settings))

todo_agent = build_todo_agent(
    tools=CurrentPlaneTools(),
    model=_model,
    max_iterations=_settings.max_iterations,
    on_iteration_limit=_settings.on_iteration_limit,
).with_config(metadata=model_metadata(_settings))

workflow = build_workflow(
    tools=REGISTRY, model=_model, api_calls=_api_calls, max_tools=_settings.max_tools
).with_config(metadata=model_metadata(_settings))

script_writer = build_script_writer(
    model=ScriptModels(_settings),
    fetch=PlainFetch(_settings.outbound_allow),
    agent=AgentFetch(_settings.max_iterations, _settings.max_tools, logged_tools_opener(_settings)),
).with_config(metadata=model_metadata(_settings))
