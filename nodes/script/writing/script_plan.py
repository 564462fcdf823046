"""Decide from the settings and the article what a script is to be like."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolweave.config.script_settings import PAGE_LANGUAGE, Persona, ScriptSettings
from toolweave.nodes.script.writing.chunking import sentences_in
from toolweave.nodes.script.writing.material import Block
from toolweave.nodes.script.writing.spoken_length import spoken_seconds

SHORTEST_S = 10.0
_STEP = 50_000
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,3}")


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """What a script is to be like, and what is refused.

    `language` None stands for the article's own, of which `page_language` is the page's word. A short article asks
    for no more than it holds: `seconds` and `least_sections` are then below the settings'.
    """

    language: str | None
    page_language: str
    character: str
    style: str
    personas: tuple[Persona, ...]
    seconds: float
    shortest_s: float
    longest_s: float
    least_sections: int
    most_sections: int


def settings_of(settings: Mapping[str, Any] | None) -> ScriptSettings:
    """Read settings that went through a checkpoint."""
    return ScriptSettings.model_validate(settings or {})


def plan_of(settings: ScriptSettings, article: Sequence[Block], *, page_language: str = "") -> ScriptPlan:
    """Make the plan; `page_language` is the page's word for its own."""
    wanted = " ".join(settings.language.split())
    seconds = min(settings.target_length_s, max(_held(article, settings.target_length_s), SHORTEST_S))
    return ScriptPlan(
        language=None if wanted.lower() in ("", PAGE_LANGUAGE) else wanted,
        page_language=page_language if _LANGUAGE_TAG.fullmatch(page_language) else "",
        character=settings.narration.character,
        style=settings.narration.style,
        personas=settings.personas,
        seconds=seconds,
        shortest_s=seconds / settings.length_factor,
        longest_s=settings.target_length_s * settings.length_factor,
        least_sections=min(settings.sections.min, _sentences(article, settings.sections.min)),
        most_sections=settings.sections.max,
    )


def _held(article: Sequence[Block], enough: float) -> float:
    """Give how long the article takes when spoken; of a long one, no more than that it is enough."""
    found = 0.0
    for text in (block.text[start : start + _STEP] for block in article for start in range(0, len(block.text), _STEP)):
        found += spoken_seconds([text])
        if found >= enough:
            break
    return found


def _sentences(article: Sequence[Block], enough: int) -> int:
    found = 0
    for block in article:
        found += sentences_in(block.text, enough)
        if found >= enough:
            break
    return max(found, 1)
