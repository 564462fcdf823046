"""The offline model as a LangChain chat model: it returns the next reply, a required tool call, a script or notes.

A script consists of sentences of the article: the first ones of each section, as many as its share of the time allows
(A-04).
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import cycle
from textwrap import wrap
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from toolweave.nodes.offline_model.choose_tool import MAX_MESSAGE_CHARS, Context, best_tools, plan_message
from toolweave.nodes.offline_model.clauses import NOT_AFTER_ABBREVIATION
from toolweave.nodes.offline_model.dialogue import MAX_TURNS, next_reply
from toolweave.nodes.offline_model.english import hide_literals, strip_courtesy
from toolweave.nodes.offline_model.fill_tool import Intent, fill_any_tool, unexplained_words
from toolweave.nodes.offline_model.results import NOTICE, Reply, Turn, call_key, content_text, label, read_turns
from toolweave.nodes.offline_model.tools import ToolSpec, invalid_parameters, minimal_value, parse_tools, resolve_schema
from toolweave.nodes.spoken_length import spoken_seconds

_WRITE_SCRIPT, _TAKE_NOTES = "write_script", "take_notes"
_NOT_TRANSLATED = f"These are the article's own sentences, not translated. {NOTICE}"
_ARTICLE = re.compile(r"<article>\n(?:# (?P<title>[^\n]*)\n)?(?P<text>.*)</article>", re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_CONTINUED = " (continued)"
# Code, rows of tables and images are narrated only where there is too little else.
_NO_PROSE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[^\n]*$|\Z)|^[ \t]*(?:\||!\[)[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_MIN_TIME_SHARE = 0.5
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)")
_MARKDOWN = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)|^(?:[-*+•>]|\d{1,3}[.)])\s|(?<! )\*|\*(?! )|[`|]")
_SENTENCE_END = re.compile(rf"{NOT_AFTER_ABBREVIATION}[.!?…؟।][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*")
_SECONDS = re.compile(r"\b(\d{1,7}) seconds when spoken\b")
_SECTIONS = re.compile(r"\b(\d{1,3})(?: to (\d{1,3}))? sections?\b")
_NOTES_WORDS = re.compile(r"\b(\d{1,7}) words\b")
_DEFAULT_SECONDS, _DEFAULT_SECTIONS, _DEFAULT_WORDS = 180, ("3", "8"), 1_000
_MIN_SECTION_S = 10
# Fewer words fit in languages whose words have many tokens.
_SECONDS_PER_WORD_OF_NOTES = 0.3
_MAX_TITLE_CHARS = 60
_MAX_PIECE_CHARS = 300


@dataclass(frozen=True, slots=True)
class SourceSection:
    """Sentences of the article below one of its headings; the heading may be empty."""

    heading: str
    sentences: list[str]


def script_or_notes_call(
    messages: Sequence[BaseMessage], tools: Sequence[ToolSpec], name: str | None
) -> tuple[str, dict[str, Any]] | None:
    """Return the call with the script or the notes; None if neither is requested, or no article is in the messages."""
    tool = next(
        (tool for tool in tools if tool.name in (_WRITE_SCRIPT, _TAKE_NOTES) and name in (None, tool.name)), None
    )
    texts = [content_text(message.content) for message in messages if isinstance(message, HumanMessage)]
    shown = next((found for text in texts if (found := _ARTICLE.search(text))), None)
    if tool is None or shown is None:
        return None
    prompt = "\n".join(content_text(message.content) for message in messages if isinstance(message, SystemMessage))
    if tool.name == _TAKE_NOTES:
        return tool.name, _notes_arguments(shown["text"], prompt)
    return tool.name, _script_arguments(shown["title"] or "", shown["text"], prompt, tool, refused=len(texts) > 1)


def split_article(text: str, *, everything: bool) -> list[SourceSection]:
    """Split an article at its headings; `everything` keeps text without sentences, too, line by line."""
    opening, *rest = _HEADING.split(text if everything else _NO_PROSE.sub("", text))
    parts = [SourceSection("", _split_sentences(opening, everything))]
    for heading, below in zip(rest[::2], rest[1::2], strict=True):
        parts.append(SourceSection(heading.strip().removesuffix(_CONTINUED), _split_sentences(below, everything)))
    return [part for part in parts if part.sentences]


def _split_sentences(text: str, everything: bool) -> list[str]:
    found: list[str] = []
    for paragraph in text.splitlines() if everything else _PARAGRAPH.split(text):
        bare = " ".join(_MARKDOWN.sub(r"\1", " ".join(paragraph.split())).split())
        *ended, rest = _SENTENCE_END.sub(r"\g<0>\n", f"{bare} ").split("\n")
        found += [*ended, *wrap(rest, _MAX_PIECE_CHARS)] if everything else ended
    return [sentence.strip() for sentence in found if any(map(str.isalnum, sentence))]


def _script_arguments(title: str, text: str, prompt: str, tool: ToolSpec, *, refused: bool) -> dict[str, Any]:
    """Return the script; the speakers take turns, one sentence each."""
    found = _SECONDS.search(prompt)
    seconds = float(found[1]) if found else _DEFAULT_SECONDS
    first, last = found.groups() if (found := _SECTIONS.search(prompt)) else _DEFAULT_SECTIONS
    least, most = int(first), int(last or first)
    parts = split_article(text, everything=refused)
    prose = [sentence for part in parts for sentence in part.sentences]
    if len(prose) < least or spoken_seconds(prose) < _MIN_TIME_SHARE * seconds:
        parts = split_article(text, everything=True)
    title = title or next((part.heading for part in parts if part.heading), "?")
    most = max(least, min(most, int(seconds / _MIN_SECTION_S)))
    sections = _excerpt(_divide_parts(parts or [SourceSection("", [title])], least, most), seconds, opening=1)
    speakers = cycle(_speakers(tool.schema) or [None])
    written = []
    for place, section in enumerate(sections):
        named = section.heading or (_short_title(section.sentences[0]) if place else title)
        narrations = [
            {"text": sentence} if (speaker := next(speakers)) is None else {"text": sentence, "persona_id": speaker}
            for sentence in section.sentences
        ]
        written.append({"title": named, "narrations": narrations, "slide_prompt": named})
    remark = f" {_NOT_TRANSLATED}" if "in this language" in prompt else ""
    return {"title": title, "description": f"{sections[0].sentences[0]}{remark}", "sections": written}


def _divide_parts(parts: Sequence[SourceSection], least: int, most: int) -> list[SourceSection]:
    """Divide the longest parts until there are `least`; join neighbours if there are more than `most`."""
    divided = list(parts)
    while len(divided) < least:
        longest = max(divided, key=lambda part: len(part.sentences))
        half = len(longest.sentences) // 2
        if not half:
            break
        place = divided.index(longest)
        halves = SourceSection(longest.heading, longest.sentences[:half]), SourceSection("", longest.sentences[half:])
        divided[place : place + 1] = halves
    joined: dict[int, SourceSection] = {}
    for place, part in enumerate(divided):
        number = place * most // max(len(divided), most)
        joined.setdefault(number, SourceSection(part.heading, [])).sentences.extend(part.sentences)
    return list(joined.values())


def _excerpt(parts: Sequence[SourceSection], seconds: float, *, opening: int) -> list[SourceSection]:
    """Return the first sentences of each part, at least `opening`, by its share of the time, plus unused time."""
    lengths = [[spoken_seconds([sentence]) for sentence in part.sentences] for part in parts]
    total = sum(map(sum, lengths)) or 1.0
    # One spare second, so that rounding cuts nothing from an article that fits.
    due, used = 1.0, 0.0
    chosen = []
    for part, listed in zip(parts, lengths, strict=True):
        due += sum(listed) * min(1.0, seconds / total)
        sentences: list[str] = []
        for sentence, length in zip(part.sentences, listed, strict=True):
            if len(sentences) < opening or used + length <= due:
                sentences.append(sentence)
                used += length
        chosen.append(SourceSection(part.heading, sentences))
    return [part for part in chosen if part.sentences]


def _speakers(schema: Any) -> list[str]:
    """Return the speakers that the function's schema allows."""
    if not isinstance(schema, Mapping):
        return []
    if isinstance(named := schema.get("persona_id"), Mapping):
        return list(named.get("enum", ()))
    return next(filter(None, map(_speakers, schema.values())), [])


def _short_title(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_TITLE_CHARS else sentence[:_MAX_TITLE_CHARS].rsplit(" ", 1)[0] + "…"


def _notes_arguments(text: str, prompt: str) -> dict[str, Any]:
    """Return an entry per heading, with its first sentences, within the number of words."""
    found = _NOTES_WORDS.search(prompt)
    seconds = (int(found[1]) if found else _DEFAULT_WORDS) * _SECONDS_PER_WORD_OF_NOTES
    parts = split_article(text, everything=False) or split_article(text, everything=True) or [SourceSection("", ["?"])]
    return {
        "sections": [{"heading": part.heading, "notes": part.sentences} for part in _excerpt(parts, seconds, opening=0)]
    }


_NO_MATCHING_TOOL = "None of the offered tools does what you ask for."
_NO_OTHER_READING = "I cannot read this request in another way, and my choice was refused."
NamedCall = tuple[str, dict[str, Any]]


def structured_call(
    turns: Sequence[Turn], tools: Sequence[ToolSpec], name: str | None, today: date
) -> NamedCall | None:
    """Return a call of the named tool, or of the best match; None if this turn already has the call."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    if not offered:
        return None
    if candidates := _workflow_tools(offered[0]):
        return offered[0].name, _choose_request(turns, candidates, today)
    call = _forced_call(turns[-1].text, offered, today)
    return None if call_key(*call) in turns[-1].results else call


def _workflow_tools(tool: ToolSpec) -> tuple[ToolSpec, ...]:
    """Return the tools that the workflow's function chooses among: each form of `arguments` has a tool id as title."""
    properties = tool.schema.get("properties")
    form = properties.get("arguments") if isinstance(properties, Mapping) and "tool_id" in properties else None
    if not isinstance(form, Mapping):
        return ()
    listed = form.get("anyOf", [form])
    branches = [resolve_schema(one, tool.schema) for one in (listed if isinstance(listed, list) else ())]
    functions = (
        # The workflow's descriptions start with the tool's name: "Get product: Get one product …".
        {"name": one.get("title"), "description": about.partition(": ")[2] or about, "parameters": one}
        for one in branches
        if isinstance(about := one.get("description", ""), str)
    )
    return parse_tools([{"function": function} for function in functions])


def _choose_request(turns: Sequence[Turn], candidates: tuple[ToolSpec, ...], today: date) -> dict[str, Any]:
    """Return the request for the conversation's first message: later ones only list the problems of a choice."""
    text, refused = turns[-1].text, list[Any]()
    for turn in reversed(turns[:-1]):
        try:
            refused.append(json.loads(turn.answer))
        except (ValueError, RecursionError):
            break
        text = turn.text
    intents = plan_message(text, Context(candidates, today)).intents
    problem = _request_problem(intents, text, today)
    if problem is None:
        intent = intents[0]
        key = {intent.tool.key.name: intent.target.ids[0]} if intent.tool.key and intent.target else {}
        arguments = {**key, **intent.arguments}
        chosen = {"tool_id": intent.tool.name, "arguments": arguments}
        if wrong := invalid_parameters(intent.tool.schema, arguments):
            problem = f"{intent.tool.name} does not accept the value of {' and '.join(map(label, sorted(wrong)))}."
        elif chosen not in refused:
            return chosen
    return {"reason": f"{problem or _NO_OTHER_READING} {NOTICE}"}


def _request_problem(intents: Sequence[Intent], text: str, today: date) -> str | None:
    """Return why no request can be made from the message; None if one can."""
    if len(intents) != 1:
        return "Give one request at a time." if intents else _NO_MATCHING_TOOL
    intent = intents[0]
    missing = [one.name for one in (*intent.missing, *filter(None, [intent.too_long]))]
    if intent.target and intent.tool.key and len(intent.target.ids) != 1:
        missing.append(intent.tool.key.name)
    if missing:
        return f"{intent.tool.name} needs a value that is missing: {' and '.join(map(label, sorted(missing)))}."
    unused = unexplained_words(text, intents, today)
    if unused:
        return f"I could not place {' and '.join(f'‘{word}’' for word in unused[:3])} in {intent.tool.name}."
    return None


def _forced_call(text: str, offered: tuple[ToolSpec, ...], today: date) -> NamedCall:
    """Fill the best matching tool; required parameters that the text does not mention get a minimal value."""
    text = text[:MAX_MESSAGE_CHARS]
    hidden, literals = hide_literals(text)
    tool = best_tools(offered, text, today)[0]
    arguments = dict(fill_any_tool(tool, strip_courtesy(hidden), literals, today).arguments)
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in arguments:
            arguments[parameter.name] = minimal_value(parameter, tool.schema, text, today)
    return tool.name, arguments


_CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")


_OPTIONAL_CHOICES = (None, False, "", "auto", "none")
_REQUIRED_CHOICES = (True, "any", "required")


def _now() -> datetime:
    return datetime.now().astimezone()


class OfflineChatModel(BaseChatModel):
    """A deterministic chat model made of rules: no network, no key, no weights (O-01).

    It chooses a bound tool by name, description and schema, fills its arguments from the user's words, and describes
    results in plain words. It is for development and demonstration, and its own answers say so. `clock` returns the
    current time, from which "tomorrow" is resolved.
    """

    model_name: str = "offline"
    clock: Callable[[], datetime] = Field(default=_now, exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "toolweave-offline"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools: BaseTools, functions, classes, or OpenAI dicts.

        Args:
            tools: the tools to choose from.
            tool_choice: "auto", "none", "any"/"required"/True, or a tool's name.
            **kwargs: passed on; `parallel_tool_calls=False` limits a message to one call.

        Raises:
            ValueError: `tool_choice` names a tool that is not among `tools`.
        """
        bound = [convert_to_openai_tool(tool) for tool in tools]
        names = [spec.name for spec in parse_tools(bound)]
        if tool_choice not in (*_OPTIONAL_CHOICES, *_REQUIRED_CHOICES, *names):
            raise ValueError(
                f"tool_choice names {tool_choice!r}, which is not bound; bound are: {', '.join(names) or 'none'}."
            )
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=bound, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, stop, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _message_chunks(self._reply(messages, stop, kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        # In a thread, because the first replies compile many patterns.
        for chunk in _message_chunks(await asyncio.to_thread(self._reply, messages, stop, kwargs)):
            yield chunk

    def _reply(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, options: Mapping[str, Any]
    ) -> AIMessage:
        tools = parse_tools(options.get("tools") or ())
        reply = decide_reply(messages, tools, options.get("tool_choice"), self.clock().date())
        calls = reply.calls[:1] if options.get("parallel_tool_calls") is False else reply.calls
        places = [place for word in stop or () if word and (place := reply.text.find(word)) >= 0]
        text = reply.text[: min(places)] if places else reply.text
        return AIMessage(
            content=text,
            tool_calls=[
                tool_call(name=name, args=arguments, id=_call_id(messages, place, name, arguments))
                for place, (name, arguments) in enumerate(calls)
            ],
            usage_metadata=_usage(messages, text, calls),
            response_metadata={
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if calls else "stop",
                "model_provider": "toolweave",
            },
        )


def decide_reply(messages: Sequence[BaseMessage], tools: tuple[ToolSpec, ...], choice: object, today: date) -> Reply:
    """Return the next message; the same messages always give the same one (O-01)."""
    turns = read_turns(messages, limit=MAX_TURNS)
    if tools and choice not in _OPTIONAL_CHOICES:
        name = next((tool.name for tool in tools if tool.name == choice), None)
        call = script_or_notes_call(messages, tools, name) or structured_call(turns, tools, name, today)
        if call:
            return Reply(calls=(call,))
    return next_reply(turns, tools, today, may_call=choice != "none")


def _call_id(messages: Sequence[BaseMessage], place: int, name: str, arguments: Mapping[str, Any]) -> str:
    # The same conversation gives the same ids; within one, its length makes them different.
    last = messages[-1].id if messages else None
    source = json.dumps([len(messages), last, place, name, arguments], sort_keys=True, default=str)
    return f"call_{hashlib.sha256(source.encode()).hexdigest()[:24]}"


def _usage(messages: Sequence[BaseMessage], text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> UsageMetadata:
    """Estimate the tokens: four characters each."""
    read = sum(len(content_text(message.content)) for message in messages)
    written = len(text) + sum(len(json.dumps(call)) for call in calls)
    sent, received = -(-read // _CHARACTERS_PER_TOKEN), -(-written // _CHARACTERS_PER_TOKEN)
    return UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)


def _message_chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield the text word by word, each call whole, and the usage last."""
    for word in _WORD.findall(str(message.content)):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    for index, call in enumerate(message.tool_calls):
        arguments = json.dumps(call["args"], ensure_ascii=False)
        whole = tool_call_chunk(name=call["name"], args=arguments, id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[whole]))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )
