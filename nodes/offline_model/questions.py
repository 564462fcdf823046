"""Ask the user for what an intent needs."""

from toolweave.nodes.offline_model.plain_words import label, listed, plural
from toolweave.nodes.offline_model.resolution import Question

_VERBS = {"create": "add", "delete": "delete", "update": "change"}


def ask(question: Question) -> str:
    """Put the question that brings the intent further."""
    intent, tool = question.intent, question.intent.tool
    if intent.too_long is not None:
        most = intent.too_long.schema.get("maxLength")
        return f"The {label(intent.too_long.name)} may have at most {most} characters. What shorter text shall I use?"
    if question.reason == "no_change":
        options = ", ".join(label(one.name) for one in tool.parameters if not one.required)
        return f"What shall I change about the {tool.noun}? I can set its {options}."
    if question.candidates:
        return _ask_which(question)
    if question.reason == "none":
        sought = intent.target.text if intent.target else ""
        fitting = f" that fits “{sought}”" if sought else ""
        return f"I found no {tool.noun}{fitting}. Which {tool.noun} do you mean?"
    if intent.missing and tool.action == "update":
        return f"What shall the new {label(intent.missing[0].name)} be?"
    if intent.missing:
        listed_names = " and ".join(f"the {label(one.name)}" for one in intent.missing)
        purpose = f"add the {tool.noun}" if tool.action == "create" else f"call {tool.name}"
        return f"I need {listed_names} to {purpose}. What shall it be?"
    return f"Which {tool.noun} shall I {_VERBS.get(tool.action or '', 'use')}? Tell me its title or its id."


def _ask_which(question: Question) -> str:
    noun, action = question.intent.tool.noun, question.intent.tool.action
    lines = listed([f"- {record.title or noun} (id {record.id})" for record in question.candidates])
    if question.reason == "confirm":
        count = len(question.candidates)
        opening = f"Shall I {_VERBS.get(action or '', 'use')} all of these {count} {plural(noun, count)}?"
    else:
        opening = f"Do you mean this {noun}?" if len(lines) == 1 else f"Which {noun} do you mean?"
    return "\n".join([opening, *lines])
