"""Small HTTP APIs other than the shop, and for each a list of instructions as `instructions.jsonl` has it.

The lists were committed before any rule was changed for them; their halves follow from the hash of the text. Nothing is
ever added: what is found later goes to tests of the rule.
"""

from pathlib import Path

from tests.nodes.offline_model.operations.instructions import Half, Instruction, read_instructions
from tests.nodes.offline_model.operations.other_apis.library import LIBRARY
from tests.nodes.offline_model.operations.other_apis.meetings import MEETINGS
from tests.nodes.offline_model.operations.other_apis.places import PLACES
from tests.nodes.offline_model.operations.other_apis.tracker import TRACKER
from toolweave.tool_config import ToolConfig

OTHER_APIS: dict[str, tuple[ToolConfig, ...]] = {
    "library": LIBRARY,
    "meetings": MEETINGS,
    "tracker": TRACKER,
    "places": PLACES,
}


def listed_for(api: str) -> Path:
    return Path(__file__).parent / f"{api}.jsonl"


def instructions_for(api: str, half: Half) -> list[Instruction]:
    """Give the instructions of one half of an API's list."""
    return [one for one in read_instructions(listed_for(api)) if one.half == half]
