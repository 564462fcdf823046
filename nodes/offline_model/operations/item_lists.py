"""Take lists of things with how many of each: "2 of product 4 and one of product 7"."""

import re
from typing import Any

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.operations.identifiers import id_form, is_identifier
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter, read_parameters, resolve
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

_COUNTING = (
    r"(?P<count>\d{1,6}|one|an?|the)\s*(?:[x×*]|times)?\s*"
    r"(?:(?:pieces?|pcs\.?|units?|copies|copy|items?|boxes|packs?)\s+)?(?:of\s+)?(?:the\s+|our\s+)?$"
)
_COUNTED = (
    r"^\W*(?:[x×*]\s*(?P<times>\d{1,6})\b|\(?\s*(?:(?:{names})\W*|times\W*)(?P<count>\d{1,6})\b"
    r"|(?P<units>\d{1,6})\s*(?:x|times|pieces?|pcs|units?|copies)\b)"
)
_MOST_ITEMS = 50


def take_item_lists(slots: Slots) -> None:
    """Fill each list of objects that name one thing each: one item for every thing the text names."""
    for parameter in slots.open():
        inner = _inner(parameter, slots) if parameter.kind == "array" else ()
        key = next((one for one in inner if is_identifier(one) and one.required), None)
        if key is None:
            continue
        number = next((one for one in inner if one.kind in ("integer", "number") and one is not key), None)
        items = _items(key, number, slots)
        if items and not wrong_parameters(slots.tool.schema, {parameter.name: items}):
            slots.arguments[parameter.name] = items


def _inner(parameter: Parameter, slots: Slots) -> tuple[Parameter, ...]:
    items = resolve(parameter.schema.get("items"), slots.tool.schema)
    shared = {key: slots.tool.schema[key] for key in ("$defs", "definitions") if key in slots.tool.schema}
    return read_parameters({**items, **shared}) if items else ()


def _items(key: Parameter, number: Parameter | None, slots: Slots) -> list[dict[str, Any]]:
    form = id_form(key, slots.noun)
    found: list[dict[str, Any]] = []
    for match in list(form.finditer(slots.free))[:_MOST_ITEMS]:
        item: dict[str, Any] = {key.name: int(match["id"]) if key.kind == "integer" else slots.restored(match["id"])}
        start, end = match.span()
        if number is not None:
            before = re.compile(_COUNTING, re.IGNORECASE).search(slots.free[:start])
            after = pattern(_COUNTED.replace("{names}", labels_of(number))).search(slots.free[end:])
            said = (before["count"] if before else None) or ""
            counted = next((digits for digits in after.groups() if digits), None) if after else None
            if said.isdigit():
                item[number.name] = int(said)
                start = before.start() if before else start
            elif counted:
                item[number.name] = int(counted)
                end += after.end() if after else 0
            elif number.required:
                item[number.name] = 1
        found.append(item)
        slots.blank(start, end)
    return found
