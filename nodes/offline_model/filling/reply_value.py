"""Read a reply that can only be the value of the one parameter that was asked for."""

import re
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.filling.choices import take_choice
from toolweave.nodes.offline_model.filling.date_arguments import as_text
from toolweave.nodes.offline_model.filling.draft import TEXT_KINDS, Remainder
from toolweave.nodes.offline_model.filling.numbers import first_number, read_number
from toolweave.nodes.offline_model.language.dates import find_dates
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.patterns import NEVER
from toolweave.nodes.offline_model.tools.parameters import Parameter


def read_value(parameter: Parameter, text: str, literals: Literals, today: date) -> Any:
    """Give the value for the parameter; None when the reply is none."""
    rest = Remainder(text.strip(), literals)
    if parameter.choices or parameter.kind == "boolean":
        return take_choice(parameter, rest, NEVER, "anywhere")
    if parameter.role == "date":
        dates = find_dates(text, today)
        return as_text(dates[0].day, parameter) if dates else None
    if parameter.kind in ("integer", "number"):
        number = first_number(text)
        return read_number(number.group(), parameter) if number else None
    if parameter.kind == "array":
        said = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", rest.text)
        return [literals.restore(word).lstrip("#") for word in said if word] or None
    return literals.restore(rest.text) or None if parameter.kind in TEXT_KINDS else None
