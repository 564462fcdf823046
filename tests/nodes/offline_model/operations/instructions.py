"""Load the list of instructions for the demo shop's operations and split it into halves.

As with the list for the todo tools, the half follows from the hash of the text alone. `instructions.jsonl` was
committed before the rules were written; lines found useful later go to `more_tune_instructions.jsonl`, which counts for
the tune half only. `tool` is null where the instructions must be refused.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Half = Literal["tune", "held"]
FOLDER = Path(__file__).parent
LISTED, ADDED = FOLDER / "instructions.jsonl", FOLDER / "more_tune_instructions.jsonl"


@dataclass(frozen=True)
class Instruction:
    """Instructions with the tool and the arguments they ask for; `{"any": [...]}` stands for equally good values."""

    text: str
    tool: str | None
    arguments: dict[str, Any]

    @property
    def half(self) -> Half:
        return "tune" if hashlib.sha256(json.dumps([[], self.text]).encode()).digest()[0] % 2 == 0 else "held"


def read_instructions(path: Path) -> list[Instruction]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Instruction(line["text"], line["tool"], line.get("arguments", {})) for line in lines]


def instructions_of(half: Half) -> list[Instruction]:
    """Give the instructions of one half; the tune half includes those added for tuning."""
    chosen = [one for one in read_instructions(LISTED) if one.half == half]
    return chosen + read_instructions(ADDED) if half == "tune" else chosen
