"""Small HTTP APIs other than the shop, and for each a list of instructions as `instructions.jsonl` has it.

The lists were committed before any rule was changed for them; their halves follow from the hash of the text. What was
found useful later, for four more APIs among it, is in `more_tune.jsonl`, which counts for the tune halves only.
"""

import json
from pathlib import Path

from tests.nodes.offline_model.operations.instructions import Half, Instruction, read_instructions
from tests.nodes.offline_model.operations.other_apis.clinic import CLINIC
from tests.nodes.offline_model.operations.other_apis.fleet import FLEET
from tests.nodes.offline_model.operations.other_apis.library import LIBRARY
from tests.nodes.offline_model.operations.other_apis.meetings import MEETINGS
from tests.nodes.offline_model.operations.other_apis.music import MUSIC
from tests.nodes.offline_model.operations.other_apis.places import PLACES
from tests.nodes.offline_model.operations.other_apis.restaurant import RESTAURANT
from tests.nodes.offline_model.operations.other_apis.tracker import TRACKER
from toolweave.tool_config import ToolConfig

FOLDER = Path(__file__).parent
ADDED_FOR_OTHERS = FOLDER / "more_tune.jsonl"
OTHER_APIS: dict[str, tuple[ToolConfig, ...]] = {
    "library": LIBRARY,
    "meetings": MEETINGS,
    "tracker": TRACKER,
    "places": PLACES,
}
TUNE_ONLY: dict[str, tuple[ToolConfig, ...]] = {
    "clinic": CLINIC,
    "music": MUSIC,
    "fleet": FLEET,
    "restaurant": RESTAURANT,
}


def listed_for(api: str) -> list[Instruction]:
    """Give an API's list as it was before the rules."""
    return read_instructions(FOLDER / f"{api}.jsonl") if api in OTHER_APIS else []


def added_for(api: str) -> list[Instruction]:
    """Give what was added later for tuning."""
    lines = [json.loads(line) for line in ADDED_FOR_OTHERS.read_text(encoding="utf-8").splitlines()]
    return [Instruction(one["text"], one["tool"], one.get("arguments", {})) for one in lines if one["api"] == api]


def instructions_for(api: str, half: Half) -> list[Instruction]:
    """Give the instructions of one half for an API; the tune half includes those added for tuning."""
    chosen = [one for one in listed_for(api) if one.half == half]
    return chosen + added_for(api) if half == "tune" else chosen
