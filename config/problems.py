"""Say what a pydantic validation found wrong without repeating what was given."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]

_OWN_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "int_parsing_size": "must be a smaller number",
    "string_type": "must be a string",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "missing": "is required",
    "extra_forbidden": "is not known",
}
_WITH_BOUND = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must hold {min_length} or more",
    "string_too_short": "must have {min_length} or more characters",
}


def sentences(error: ValidationError) -> list[tuple[Location, str]]:
    """List (location, what was expected) for each problem, in the order of the fields."""
    details = error.errors(include_url=False, include_input=False)
    return [(detail["loc"], _expectation(detail)) for detail in details]


def shown_path(location: Location) -> str:
    """Write a path inside a value as one would in code: args[0], env.NAME."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location if step != "[key]"]
    return "".join(steps).removeprefix(".")


def _expectation(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in _WITH_BOUND:
        return _WITH_BOUND[kind].format(**detail["ctx"])
    return _OWN_WORDS.get(kind, f"is wrong: {detail['msg']}")
