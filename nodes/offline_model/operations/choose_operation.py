"""Choose the operation that explains best what was said; or tell why none is called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.operations.fill_operation import Filled, fill_operation
from toolweave.nodes.offline_model.operations.said import Said, read_said
from toolweave.nodes.offline_model.operations.scoring import first_score, is_spoken_of, scale_of, whole_score
from toolweave.nodes.offline_model.plain_words import label
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

ENOUGH = 1.0
MOST_FILLED = 16
"""Operations that are filled, best words first; filling is what takes time."""
_MOST_QUOTED, _LONGEST_QUOTED = 3, 80
NOTHING_FITS = "None of the offered tools does what these words ask for."


@dataclass(frozen=True)
class Chosen:
    """The operation with its arguments; or, without one, why."""

    tool: ToolSpec | None = None
    arguments: Mapping[str, Any] | None = None
    reason: str = ""


def choose_operation(text: str, tools: Sequence[ToolSpec], today: date) -> Chosen:
    """Choose among operations and fill the chosen one; nothing is made up."""
    ranked = rank_operations(read_said(text), tools, today)
    if not ranked or ranked[0][0] < ENOUGH:
        return Chosen(reason=NOTHING_FITS)
    best = ranked[0][1]
    if best.missing or best.wrong:
        return Chosen(reason=_lacking(best))
    if best.unplaced:
        return Chosen(reason=f"I could not place {_quoted(best.unplaced)} in {best.tool.name}.")
    return Chosen(best.tool, best.arguments)


def rank_operations(said: Said, tools: Sequence[ToolSpec], today: date) -> list[tuple[float, Filled]]:
    """Fill the operations whose words fit and score them, best first; equal ones stay in their order."""
    scale = scale_of(said.text, tools)
    likely = sorted(tools, key=lambda tool: -first_score(tool, scale))[:MOST_FILLED]
    filled = (fill_operation(tool, said, today) for tool in tools if tool in likely)
    scored = [(whole_score(one, scale), one) for one in filled if is_spoken_of(one, scale)]
    return sorted(scored, key=lambda pair: -pair[0])


def _lacking(filled: Filled) -> str:
    if filled.wrong:
        return f"{filled.tool.name} does not take what was given as {_names(filled.wrong)}."
    return f"{filled.tool.name} needs a value that was not given: {_names(filled.missing)}."


def _quoted(phrases: Sequence[str]) -> str:
    return " and ".join(f"'{one[:_LONGEST_QUOTED]}'" for one in phrases[:_MOST_QUOTED])


def _names(parameters: Sequence[Parameter]) -> str:
    return " and ".join(label(one.name) for one in parameters)
