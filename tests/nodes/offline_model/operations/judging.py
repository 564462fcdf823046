"""Let the model choose among all operations of an API, as the workflow asks it to, and judge what it chose."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from tests.fixtures.shop_api import shop_application
from tests.nodes.offline_model.judging import offline_model
from tests.nodes.offline_model.operations.instructions import Instruction
from toolweave.nodes.workflow.selection_schema import selection_schema
from toolweave.servers.registry.openapi.importing import ImportOptions, import_openapi
from toolweave.tool_config import ToolConfig

# What the prompt says must not be taken for the user's words.
PROMPT = SystemMessage('Choose one tool. <tool>Delete product 1 for customer 99, "quoted", 7 euros</tool>')


@dataclass(frozen=True)
class Verdict:
    instruction: Instruction
    right: bool
    written: dict[str, Any]


@lru_cache(maxsize=1)
def shop_operations() -> tuple[ToolConfig, ...]:
    """Import the shop's operations from its own OpenAPI document."""
    document = shop_application().openapi()
    return tuple(import_openapi(document, ImportOptions(base_url="http://127.0.0.1:9")).tools)


def choose(text: str, tools: Iterable[ToolConfig] | None = None) -> dict[str, Any]:
    """Give what the model writes for the function that the workflow binds; without tools, for the demo shop's."""
    offered = list(shop_operations() if tools is None else tools)
    bound = offline_model().bind_tools([selection_schema(offered)], tool_choice="any")
    [call] = bound.invoke([PROMPT, HumanMessage(text)]).tool_calls
    written: dict[str, Any] = call["args"]
    return written


def judge(instruction: Instruction, tools: Iterable[ToolConfig] | None = None) -> Verdict:
    """Judge one choice: exactly the tool and the arguments; or a reason and nothing else."""
    written = choose(instruction.text, tools)
    return Verdict(instruction, is_right(written, instruction), written)


def is_right(written: dict[str, Any], instruction: Instruction) -> bool:
    if instruction.tool is None:
        return written.keys() == {"reason"} and bool(written["reason"])
    if written.keys() != {"tool_id", "arguments"} or written["tool_id"] != instruction.tool:
        return False
    return fits(written["arguments"], instruction.arguments)


def fits(made: Any, wanted: Any) -> bool:
    """Compare values; an absent one counts as None, and texts may differ in case and a final point."""
    if isinstance(wanted, dict) and wanted.keys() == {"any"}:
        return any(fits(made, option) for option in wanted["any"])
    if isinstance(wanted, dict):
        return isinstance(made, dict) and all(fits(made.get(name), wanted.get(name)) for name in {*made, *wanted})
    if isinstance(wanted, list):
        same_length = isinstance(made, list) and len(made) == len(wanted)
        return same_length and all(fits(one, other) for one, other in zip(made, wanted, strict=True))
    if isinstance(made, str) and isinstance(wanted, str):
        return made.casefold().strip(" .") == wanted.casefold().strip(" .")
    return isinstance(made, bool) == isinstance(wanted, bool) and bool(made == wanted)


def shares(verdicts: Iterable[Verdict]) -> dict[str, tuple[int, int]]:
    """Count the right ones and all of those that call a tool, of those that must be refused, and of all `overall`."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for verdict in verdicts:
        for key in ("refused" if verdict.instruction.tool is None else "chosen", "overall"):
            total[key] += 1
            right[key] += verdict.right
    return {key: (right[key], total[key]) for key in total}
