"""Validate values against JSON Schemas from servers and users, with problems that a model can correct (T-10).

References are never fetched, a long check is stopped, and patterns run on an engine with linear time. jsonschema-rs
accepts valid values where that is safe; jsonschema, with a limit of steps, checks all others.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, cached_property, lru_cache
from itertools import islice
from json import dumps
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema.validators import extend, validator_for
from jsonschema_rs import ReferencingError, RegexOptions, Validator
from jsonschema_rs import validator_for as quick_validator_for
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema, to_json
from referencing import Registry
from referencing.exceptions import Unresolvable

MAX_PARTS = 5_000
MAX_DEPTH = 64
MAX_PATTERN_CHARS = 1_000
MAX_STEPS = 5_000
MAX_FORM_STEPS = 1_000_000
"""The maximum number of steps for the form checks of all schemas of one request."""
ITEMS_PER_STEP = 20
CHARS_PER_STEP = 1_000
MAX_PROBLEMS = 5
MAX_VALUE_CHARS = 60
MAX_PROBLEM_CHARS = 400
MAX_CHOICES = 12
MAX_BRANCHES = 3

# jsonschema-rs holds the GIL for a whole check. With `_FAST_KEYWORDS`, which have no references and compare no large
# values, it takes at most 5 ns for each part of the schema and byte of the value: 100 ms.
MAX_WORK = 20_000_000
# Compiling a pattern takes up to a millisecond.
MAX_PATTERNS = 50
MAX_PATTERN_BYTES = 100_000
# jsonschema-rs would fetch any other draft.
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
)
_COMBINATORS = frozenset({"anyOf", "allOf", "oneOf"})
_FAST_KEYWORDS = _COMBINATORS | {
    *("type", "enum", "required", "properties", "additionalProperties", "items", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"),
    *("$defs", "definitions"),
}

_CHECK_ERRORS = (
    *(UnknownType, Unresolvable, RecursionError, ArithmeticError),
    *(TypeError, ValueError, AttributeError, LookupError),
)
_steps_left: ContextVar[list[int]] = ContextVar("steps_left")


class TooManySteps(ValueError):
    """A check has used its maximum number of steps."""


class Schema:
    """A JSON Schema of the draft that its `$schema` names, 2020-12 by default.

    Creating a very large one takes up to a second unless `well_formed`, so create it on a thread.

    Args:
        schema: the schema.
        well_formed: the schema is known to be valid against its draft's meta-schema.
        form_steps: a list with one number, the steps left for the form checks of this schema and of others.

    Raises:
        ValueError: the schema is too large, nested too deeply, or not valid.
    """

    def __init__(
        self, schema: Mapping[str, Any], *, well_formed: bool = False, form_steps: list[int] | None = None
    ) -> None:
        self._parts = check_size(schema)
        self._schema = schema
        draft = _draft_of(schema, Draft202012Validator)
        # A schema that jsonschema-rs compiles is well-formed; the check with the meta-schema takes milliseconds.
        if not well_formed and (form_steps is not None or self._fast_validator is None):
            _check_form(draft, schema, [MAX_FORM_STEPS] if form_steps is None else form_steps)
        self._validator = _bounded(draft)(schema, registry=Registry())

    def problems(self, value: Any, steps: list[int] | None = None) -> list[str]:
        """Return at most `MAX_PROBLEMS` problems of `value`; each names the field and what it must be.

        A value that cannot be checked, because a reference is unknown or the check takes too long, has no problem.
        Several checks can share `steps`, a list with one number: the steps left. A valid value takes a microsecond
        without `steps`; with it, a valid value uses steps, too.
        """
        if steps is None and self._is_valid(value):
            return []
        token = _steps_left.set([MAX_STEPS] if steps is None else steps)
        found: list[ValidationError] = []
        try:
            # Collect one by one: the problems found before a stopped check are valid.
            found.extend(islice(self._validator.iter_errors(value), MAX_PROBLEMS))
        except _CHECK_ERRORS:
            pass
        finally:
            _steps_left.reset(token)
        return list(dict.fromkeys(map(_describe_problem, found)))

    @cached_property
    def _fast_validator(self) -> Validator | None:
        return _compile_fast(self._schema)

    def _is_valid(self, value: Any) -> bool:
        """Return whether a value is certainly valid; False also if it is too large for this check, or not JSON."""
        if self._fast_validator is None:
            return False
        try:
            return len(to_json(value)) * self._parts <= MAX_WORK and self._fast_validator.is_valid(value)
        except ValueError:
            return False


def _compile_fast(schema: Mapping[str, Any]) -> Validator | None:
    parts = list(_subschemas({keyword: rule for keyword, rule in schema.items() if keyword != "$schema"}))
    patterns = [part for part in parts if isinstance(part, Mapping) and "pattern" in part]
    if (
        schema.get("$schema", _DRAFTS[0]) not in _DRAFTS
        or len(patterns) > MAX_PATTERNS
        or not all(map(_is_fast, parts))
    ):
        return None
    options = RegexOptions(size_limit=MAX_PATTERN_BYTES)
    try:
        return quick_validator_for(dict(schema), validate_formats=False, pattern_options=options)
    except (ValueError, ReferencingError):
        return None


def _subschemas(schema: Any) -> Iterator[Any]:
    yield schema
    for keyword, rule in schema.items() if isinstance(schema, Mapping) else ():
        if keyword == "properties" and isinstance(rule, Mapping):
            inner = list(rule.values())
        elif keyword in _COMBINATORS and isinstance(rule, list):
            inner = rule
        else:
            inner = [rule] if keyword in ("items", "additionalProperties") else []
        for part in inner:
            yield from _subschemas(part)


def _is_fast(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    choices = schema.get("enum", [])
    return (
        all(keyword in _FAST_KEYWORDS or keyword.startswith("x-") for keyword in schema)
        and isinstance(choices, list)
        and all(isinstance(choice, str) or choice is None for choice in choices)
    )


def _check_form(draft: Any, schema: Mapping[str, Any], steps: list[int]) -> None:
    # Formats are not checked: "regex" would check patterns of other dialects with Python's.
    token = _steps_left.set(steps)
    try:
        error_found = next(_bounded(draft)(draft.META_SCHEMA).iter_errors(schema), None)
    except TooManySteps:
        raise ValueError(
            f"the form of the schemas in this request takes more than {MAX_FORM_STEPS:,} steps to check; "
            "make them smaller or send fewer tools at once"
        ) from None
    except _CHECK_ERRORS as error:
        raise ValueError(f"it cannot be read: {type(error).__name__}") from None
    finally:
        _steps_left.reset(token)
    if error_found is not None:
        # Without the schema's own text, which can be very long and contain secrets.
        raise ValueError(_describe_form_problem(SchemaError.create_from(error_found)))


def check_size(schema: Mapping[str, Any]) -> int:
    """Return the number of parts of a schema.

    Raises:
        ValueError: the schema has too many parts or is nested too deeply.
    """
    nodes, level = 0, [schema]
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        if nodes > MAX_PARTS:
            raise ValueError(f"it has more than {MAX_PARTS} parts")
        level = [inner for part in level for inner in _child_parts(part)]
        if not level:
            return nodes
    raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


@lru_cache(maxsize=1_024)
def compile_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that searches a pattern in linear time; None for unsupported patterns (lookarounds)."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    try:
        matches = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except PatternError:
        return None
    return matches.isinstance_python


def _child_parts(part: Any) -> Any:
    if isinstance(part, Mapping):
        return part.values()
    return part if isinstance(part, list | tuple) else ()


@cache
def _bounded(draft: Any) -> Any:
    keywords = {name: _count_steps(check) for name, check in draft.VALIDATORS.items()}
    own = {"pattern": _check_pattern, "patternProperties": _check_pattern_properties, "uniqueItems": _check_unique}
    # Additional properties are unknown if a pattern is not supported.
    own["additionalProperties"] = _check_additional(draft.VALIDATORS["additionalProperties"])
    guarded: Any = extend(draft, keywords | {name: _count_steps(check) for name, check in own.items()})  # type: ignore[no-untyped-call]
    guarded.evolve = _evolve
    return guarded


def _draft_of(schema: Any, otherwise: Any) -> Any:
    named = isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str)
    return validator_for(dict(schema), default=otherwise) if named else otherwise


def _evolve(validator: Any, **changes: Any) -> Any:
    """Return the validator for a part of the schema; a part with its own `$schema` gets a bounded one, too."""
    own = type(validator)
    draft = _draft_of(changes.setdefault("schema", validator.schema), own)
    for field in own.__attrs_attrs__:
        if field.init:
            changes.setdefault(field.alias, getattr(validator, field.name))
    return (own if draft is own else _bounded(draft))(**changes)


def _count_steps(check: Any) -> Any:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _use_steps(1 + _cost(instance) + _cost(value))
        yield from check(validator, value, instance, schema) or ()

    return counted


def _use_steps(steps: int) -> None:
    left = _steps_left.get()
    left[0] -= steps
    if left[0] < 0:
        raise TooManySteps


def _cost(value: Any) -> int:
    """Return the steps of a keyword that reads a whole value."""
    if isinstance(value, str):
        return len(value) // CHARS_PER_STEP
    return len(value) // ITEMS_PER_STEP if isinstance(value, list | dict) else 0


def _check_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        matches = compile_pattern(pattern)
        if matches is not None and not matches(instance):
            yield ValidationError("does not match")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        _use_steps(_cost(instance))
        matches = compile_pattern(pattern)
        for name, value in instance.items() if matches is not None else ():
            if matches and matches(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional(check: Any) -> Any:
    def additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        matchers = [compile_pattern(pattern) for pattern in schema.get("patternProperties", ())]
        if None in matchers:
            return
        known = schema.get("properties", ())
        _use_steps(len(matchers) * _cost(instance))
        others = {
            name: value
            for name, value in instance.items()
            if name not in known and not any(matches(name) for matches in matchers if matches)
        }
        plain = {key: value for key, value in schema.items() if key not in ("patternProperties", "properties")}
        yield from check(validator, allowed, others, plain) or ()

    return additional


def _check_unique(_validator: Any, required: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    items = instance if required and isinstance(instance, list) else []
    serialized = [dumps(item, sort_keys=True, default=str) for item in items]
    _use_steps(sum(map(len, serialized)) // CHARS_PER_STEP)
    if len(set(serialized)) < len(items):
        yield ValidationError("has equal items")


def _describe_problem(error: ValidationError) -> str:
    path, value = _error_path(error), error.instance
    rule: Any = error.validator_value
    forms = _branch_problems(error)
    if forms:
        return " or ".join(_describe_problem(form) for form in forms[:MAX_BRANCHES])[:MAX_PROBLEM_CHARS]
    if error.validator == "required":
        missing = next((name for name in rule if name not in value), "a field")  # type: ignore[operator]
        return f"{_join_path(path, missing)} is required"[:MAX_PROBLEM_CHARS]
    if error.validator == "additionalProperties" and rule is False:
        return _unknown_fields(path, error)[:MAX_PROBLEM_CHARS]
    return f"{path or 'the arguments'} {_expected(error, rule)}"[:MAX_PROBLEM_CHARS] + f"; got {describe_value(value)}"


def _describe_form_problem(error: SchemaError) -> str:
    found = next(iter(_branch_problems(error)), error)
    return f"{_error_path(found) or 'it'} {_expected(found, found.validator_value)}"[:MAX_PROBLEM_CHARS]


def _branch_problems(error: ValidationError | SchemaError) -> list[ValidationError]:
    """Return the first problem of each branch that allows the value's type."""
    if error.validator not in ("anyOf", "oneOf"):
        return []
    first = {inner.schema_path[0]: inner for inner in reversed(error.context or [])}
    return [inner for _, inner in sorted(first.items()) if not _is_of_other_type(inner)]


def _is_of_other_type(error: ValidationError | SchemaError) -> bool:
    return error.validator == "type" and not error.path


def _unknown_fields(path: str, error: ValidationError) -> str:
    parent, value = error.schema, error.instance
    known = list(parent.get("properties", ())) if isinstance(parent, Mapping) else []
    names = [name for name in value if name not in known]  # type: ignore[union-attr]
    listed = ", ".join(_join_path(path, str(name)[:MAX_VALUE_CHARS]) for name in names[:3])
    rest = f"; known: {_list_choices(known)}" if known else ""
    return f"{listed} is not a known field{rest}" if len(names) == 1 else f"{listed} are not known fields{rest}"


def _expected(error: ValidationError | SchemaError, rule: Any) -> str:
    if error.validator in ("anyOf", "oneOf") and error.context:
        refused = [inner for inner in error.context if _is_of_other_type(inner)]
        kinds = [name for inner in refused for name in _type_names(inner.validator_value)]
        return f"must be {_type_phrase(list(dict.fromkeys(kinds)))}"
    if error.validator == "type":
        return f"must be {_type_phrase(rule)}"
    if error.validator == "enum":
        return f"must be one of {_list_choices(rule)}" if len(rule) != 1 else f"must be {_plain_value(rule[0])}"
    return f"must satisfy {str(error.validator)[:40]}: {_plain_value(rule)}"


_ARTICLES = {"integer": "an integer", "object": "an object", "array": "a list", "null": "null"}


def _type_phrase(names: Any) -> str:
    kinds = [_ARTICLES.get(name, f"a {name}") for name in _type_names(names)]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _type_names(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else [str(name)[:MAX_VALUE_CHARS] for name in names]


def _list_choices(choices: list[Any]) -> str:
    listed = ", ".join(_plain_value(choice) for choice in choices[:MAX_CHOICES])
    return listed if len(choices) <= MAX_CHOICES else f"{listed} or {len(choices) - MAX_CHOICES} others"


def _plain_value(value: Any) -> str:
    return value[:MAX_VALUE_CHARS] if isinstance(value, str) else describe_value(value)


def describe_value(value: Any) -> str:
    """Return a short description of a value of any size."""
    match value:
        case str():
            cut = value[:MAX_VALUE_CHARS]
            return repr(cut) if len(value) <= MAX_VALUE_CHARS else f"{cut!r}… ({len(value)} characters)"
        case dict():
            return "an object"
        case list() | tuple():
            return f"a list of {len(value)} items"
        case bool() | None:
            return dumps(value)
        case int() if abs(value) >= 10**30:
            return "a very large number"
        case _:
            return str(value)[:MAX_VALUE_CHARS]


def _error_path(error: ValidationError | SchemaError) -> str:
    path = ""
    for step in error.absolute_path:
        path = f"{path}[{step}]" if isinstance(step, int) else _join_path(path, step)
    return path


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}"[-200:] if path else str(name)[:200]
