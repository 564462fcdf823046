"""Compose the graphs that langgraph.json names; nothing is connected and no model is made until a run needs it."""

from toolweave.config.settings import load_settings
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools
from toolweave.graphs.todo_agent import build_todo_agent
from toolweave.nodes.chat_model_source import LazyChatModel
from toolweave.nodes.chat_models import build_chat_model, model_metadata
from toolweave.nodes.prompts import AGENT_PROMPT

_settings = load_settings()
_model = LazyChatModel(lambda: build_chat_model(load_settings()))

agent_loop = build_agent_loop(
    tools=CurrentPlaneTools(),
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
