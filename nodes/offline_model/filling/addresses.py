"""Take URLs, e-mail addresses, paths and glob patterns for the parameters made for them."""

from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.language.literals import HIDDEN, HiddenText
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.parameters import Parameter, Role

_FOLDER = r"(?:folder|directory|dir)"
_IN_FOLDER = pattern(
    rf"\b(?:in|under|from|inside|within|of|below)(?: the)?(?: {_FOLDER})? (?P<value>{HIDDEN}|[\w.-]+)"
    rf"(?: {_FOLDER})?(?![\w-])"
)


def wanted_role(literal: HiddenText) -> Role:
    """Give the role a literal fits: a path with a star is a pattern to search for."""
    if literal.kind == "path" and "*" in literal.value:
        return "query"
    return "url" if literal.kind == "url" else "email" if literal.kind == "email" else "path"


def take_addresses(draft: Draft) -> None:
    """Take the literals in their order, each for the first parameter of its role."""
    _take_folders(draft)
    for character, literal in draft.rest.literals.in_text(draft.rest.text, "url", "email", "path"):
        for parameter in draft.tool.parameters:
            if _fits(parameter, literal) and parameter.name not in draft.arguments:
                draft.arguments[parameter.name] = [literal.value] if parameter.kind == "array" else literal.value
                place = draft.rest.text.index(character)
                draft.rest.cut(place, place + 1)
                break


def _fits(parameter: Parameter, literal: HiddenText) -> bool:
    if parameter.role != wanted_role(literal) or parameter.kind not in ("string", "any", "array"):
        return False
    is_file = "." in literal.value.rsplit("/", 1)[-1].strip(".")
    return not (_is_folder(parameter) and is_file)


def _is_folder(parameter: Parameter) -> bool:
    return parameter.role == "path" and bool({"directory", "folder", "dir"} & set(parameter.words))


def _take_folders(draft: Draft) -> None:
    """Take plain names of folders by their preposition: "in src"; the last one counts."""
    for parameter in draft.tool.parameters:
        if _is_folder(parameter):
            matches = list(_IN_FOLDER.finditer(draft.rest.text))
            if matches:
                draft.fill(parameter, matches[-1]["value"])
                draft.rest.cut(matches[-1].start(), matches[-1].end())
