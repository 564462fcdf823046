"""The graphs that scripts/bench.py measures, in process and served: one cheap node, and one that streams 500 tokens."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

SPEECH = " ".join(f"word{number}" for number in range(250))


async def respond(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(content=f"echo: {state['messages'][-1].content}")]}


async def speak(state: MessagesState, config: RunnableConfig) -> dict[str, list[AIMessage]]:
    model = GenericFakeChatModel(messages=iter([AIMessage(content=SPEECH)]))
    return {"messages": [await model.ainvoke(state["messages"], config)]}


agent = StateGraph(MessagesState).add_node("respond", respond).add_edge(START, "respond").compile()
tokens = StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak").compile()
