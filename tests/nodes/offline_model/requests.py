"""Load the list of natural requests and split it, once and for all, into a half to tune on and a half to report.

The half follows from the hash of the texts alone, so adding or moving lines never moves another line to the other half.
`requests.jsonl` was committed before the model existed; lines found useful later go to `more_tune_requests.jsonl`,
which only ever counts for the tune half.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Half = Literal["tune", "held"]
Call = tuple[str, dict[str, Any]]

OPERATIONS = ("create", "list", "update", "search", "delete")
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Request:
    """One request: the messages of `history` come first, then `text`; any one of `accepted` lists of calls is right."""

    operation: str
    text: str
    history: tuple[str, ...]
    accepted: tuple[tuple[Call, ...], ...]
    asks: bool

    @property
    def half(self) -> Half:
        key = json.dumps([list(self.history), self.text])
        return "tune" if hashlib.sha256(key.encode()).digest()[0] % 2 == 0 else "held"


def read_requests(path: Path) -> list[Request]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [
        Request(
            operation=line["op"],
            text=line["text"],
            history=tuple(line.get("history", ())),
            accepted=tuple(
                tuple((name, arguments) for name, arguments in calls)
                for calls in line.get("either", [line.get("expect")])
            ),
            asks=line.get("asks", False),
        )
        for line in lines
    ]


def requests_of(half: Half) -> list[Request]:
    """Give the requests of one half; the tune half includes those added for tuning."""
    chosen = [request for request in read_requests(FOLDER / "requests.jsonl") if request.half == half]
    added = FOLDER / "more_tune_requests.jsonl"
    return chosen + read_requests(added) if half == "tune" and added.exists() else chosen
