"""Write a script when it is asked for as a function call: sentences of the article, chosen, in its order (A-04)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from toolweave.nodes.offline_model.scripts.article import Article, Sentence, Worth, framed_article, read_article
from toolweave.nodes.offline_model.scripts.candidates import Group, groups_of
from toolweave.nodes.offline_model.scripts.choosing import Choice
from toolweave.nodes.offline_model.scripts.note_taking import notes_of
from toolweave.nodes.offline_model.scripts.section_texts import section_title, shortened_title, slide_prompt
from toolweave.nodes.offline_model.scripts.weights import weighed
from toolweave.nodes.offline_model.scripts.wishes import Wishes, read_wishes, wished_words
from toolweave.nodes.offline_model.small_talk import NOTICE
from toolweave.nodes.offline_model.tools.parameters import resolve
from toolweave.nodes.offline_model.tools.tool_results import text_of
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

WRITE_SCRIPT, TAKE_NOTES = "write_script", "take_notes"
NOT_TRANSLATED = f"These are the article's own sentences, not translated. {NOTICE}"
ENOUGH, ENOUGH_AFTER_REFUSAL = 0.5, 0.98
"""Shares of the length: below it, a script says more than prose."""
_LONGEST_DESCRIPTION = 220
_SPACED_ENDS = tuple(".!?…؟۔।\"'”’»«“›‹)")


def written_call(
    messages: Sequence[BaseMessage], tools: Sequence[ToolSpec], name: str | None
) -> tuple[str, dict[str, Any]] | None:
    """Give the call with the script or the notes; None when neither is asked for, or no article is shown."""
    tool = next((tool for tool in tools if tool.name in (WRITE_SCRIPT, TAKE_NOTES) and name in (None, tool.name)), None)
    said = [text_of(message.content) for message in messages if isinstance(message, HumanMessage)]
    shown = next((framed for text in said if (framed := framed_article(text)) is not None), None)
    if tool is None or shown is None:
        return None
    told = "\n".join(text_of(message.content) for message in messages if isinstance(message, SystemMessage))
    article = read_article(shown)
    if tool.name == TAKE_NOTES:
        return tool.name, notes_of(article, wished_words(told))
    form = _ScriptForm(tool)
    wishes = read_wishes(told, form.sections)
    return tool.name, form.filled(article, wishes, ENOUGH if len(said) == 1 else ENOUGH_AFTER_REFUSAL)


class _ScriptForm:
    """The function's schema: which fields it has, and who may speak."""

    def __init__(self, tool: ToolSpec) -> None:
        self.sections = _property(tool.schema, "sections", tool.schema)
        section = resolve(self.sections.get("items"), tool.schema)
        narration = resolve(_property(section, "narrations", tool.schema).get("items"), tool.schema)
        listed = _property(narration, "persona_id", tool.schema).get("enum")
        self._speakers = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []

    def filled(self, article: Article, wishes: Wishes, enough: float) -> dict[str, Any]:
        """Write the script; the speakers take turns, a sentence each."""
        groups = groups_of(article, wishes.length, enough, wishes.least, wishes.most)
        chosen = Choice(groups, weighed(article), wishes.length, wishes.least).made()
        title = article.title or _first_heading(article) or shortened_title(next(_texts(chosen), "?"))
        turns = count()
        used: set[str] = set()
        sections = []
        for group in chosen:
            named = section_title(group, title, used)
            used.add(named)
            narrations = [self._narration(sentence, next(turns)) for _, sentence in group.sentences]
            sections.append({"title": named, "narrations": narrations, "slide_prompt": slide_prompt(group, named)})
        described = _description(article, chosen) or title
        if wishes.translated:
            described = f"{described} {NOT_TRANSLATED}"
        return {"title": title, "description": described, "sections": sections}

    def _narration(self, sentence: Sentence, turn: int) -> dict[str, str]:
        said = {"text": sentence.text}
        return {**said, "persona_id": self._speakers[turn % len(self._speakers)]} if self._speakers else said


def _property(schema: Mapping[str, Any], name: str, root: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return resolve(properties.get(name), root) if isinstance(properties, Mapping) else {}


def _first_heading(article: Article) -> str:
    return next((part.heading for part in article.parts if part.heading), "")


def _texts(groups: Sequence[Group]) -> Iterator[str]:
    return (sentence.text for group in groups for _, sentence in group.sentences)


def _description(article: Article, chosen: Sequence[Group]) -> str:
    """Take the article's first sentence, and the second if there is room."""
    prose = [
        sentence.text for part in article.parts for sentence in part.sentences if sentence.worth is Worth.PROSE
    ] or list(_texts(chosen))
    both = (" " if prose and prose[0].endswith(_SPACED_ENDS) else "").join(prose[:2])
    return both if len(both) <= _LONGEST_DESCRIPTION else next(iter(prose), "")
