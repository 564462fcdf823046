"""A LangChain application: a chain whose middle step is Toolweave's agent with the tools of an MCP server."""

import sys
from typing import Any

from langchain_core.runnables import Runnable, RunnableLambda

from toolweave import build_agent_loop

# Any block of an MCP client; here the todo server that comes with Toolweave, whose file is in ./.toolweave.
SERVERS = {"mcpServers": {"todo": {"command": sys.executable, "args": ["-m", "toolweave.servers.todo"]}}}


def as_input(line: str) -> dict[str, Any]:
    return {"messages": [("user", line.strip())]}


def last_text(state: dict[str, Any]) -> str:
    text: str = state["messages"][-1].text
    return text


def build_chain(model: str = "offline") -> Runnable[str, str]:
    """Return the chain; `openai:gpt-4o` and others are models, too."""
    return RunnableLambda(as_input) | build_agent_loop(tools=SERVERS, model=model) | RunnableLambda(last_text)


if __name__ == "__main__":
    chain = build_chain()
    for request in sys.argv[1:] or ["Add a task to buy milk", "List my tasks"]:
        print(chain.invoke(request))
