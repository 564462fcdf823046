"""Follow the dialogue of an agent that fetches a page: tell its progress, and say in the end what went wrong (A-04)."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from toolweave.errors import FetchFailed
from toolweave.nodes.dialogue import RequestedCall, requested_calls
from toolweave.nodes.model_turn import answer_status
from toolweave.nodes.model_usage import ModelUsage
from toolweave.nodes.progress_events import tell_progress
from toolweave.nodes.script.fetching.tool_parts import addresses_in
from toolweave.nodes.script.fetching.tool_results import tool_errors, tool_results
from toolweave.nodes.script.page_address import shown_url
from toolweave.redact import redact_text

CONNECTED_PERCENT, CAME_PERCENT = 6.0, 36.0
LONGEST_NAME = 64
LONGEST_ANSWER = 300
_CUT_SHORT = {
    "length": "The model's answer was cut off at its length limit (finish_reason length).",
    "content_filter": "The model's answer was withheld by a content filter (finish_reason content_filter).",
}


class FetchDialogue:
    """What was said so far in the fetch of `url`, in at most `most_turns` turns of the model."""

    def __init__(self, url: str, most_turns: int) -> None:
        self.messages: list[AnyMessage] = []
        self.url = url
        self._most_turns = most_turns
        self._turns = 0

    def follow(self, messages: Sequence[AnyMessage]) -> None:
        """Take in the dialogue as it is now.

        Raises:
            FetchFailed: the model's answer is cut or withheld; the text is the reason alone.
        """
        new = messages[len(self.messages) :]
        self.messages = list(messages)
        for message in new:
            if isinstance(message, AIMessage):
                self._turns += 1
                if problem := _CUT_SHORT.get(answer_status(message)):
                    raise FetchFailed(problem)
            for call in requested_calls(message):
                self._tell(f"Calling {call['name'][:LONGEST_NAME]}{_where(call)}")
            if isinstance(message, ToolMessage):
                told = "failed" if message.status == "error" else "has answered"
                self._tell(f"{str(message.name)[:LONGEST_NAME]} {told}")

    def check(self) -> None:
        """See that there is something to make a page of.

        Raises:
            FetchFailed: no tool was called, no call succeeded, or nothing came of it; the text is the reason alone.
        """
        if not any(isinstance(message, ToolMessage) for message in self.messages):
            said = redact_text(" ".join(self.messages[-1].text.split())[:LONGEST_ANSWER]) if self.messages else ""
            raise FetchFailed(f"The model called no tool. {f'It said: {said}' if said else ''}".rstrip())
        found = tool_results(self.messages)
        if not found:
            raise FetchFailed("No tool call succeeded.")
        if not any(result.text.strip() or result.structured for result in found):
            raise FetchFailed("The tools returned nothing.")

    def failure(self, reason: str, servers: Sequence[str], usage: Sequence[ModelUsage] = ()) -> FetchFailed:
        """Say why there is no page: the reason, how the servers are, and what failed calls said."""
        parts = [f"The page {shown_url(self.url)} was not fetched by the agent: {reason}"]
        if servers:
            parts.append(f"MCP servers: {'; '.join(servers)}.")
        if errors := tool_errors(self.messages):
            parts.append(f"Failed calls: {'; '.join(errors)}")
        return FetchFailed(redact_text(" ".join(parts)), model_usage=usage)

    def _tell(self, message: str) -> None:
        share = min(self._turns / (self._most_turns + 1), 1.0)
        tell_progress(CONNECTED_PERCENT + (CAME_PERCENT - CONNECTED_PERCENT) * share, message)


def _where(call: RequestedCall) -> str:
    """Name the page that a call is about by host and path; queries may hold secrets."""
    address = next(addresses_in(call["args"]), "")
    return f" for {shown_url(urlsplit(address)._replace(query='', fragment='').geturl())}" if address else ""
