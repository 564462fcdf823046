"""Check values against JSON Schemas of others, and say what is wrong so that a model can correct it (T-10).

A schema comes from any server or user. References are never fetched, a check is broken off when it grows too long, and
expressions run on an engine whose time grows with the text only. A value that fits is accepted by jsonschema-rs where
that is safe; jsonschema, in bounded steps, judges all others.
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

MOST_NODES = 5_000
DEEPEST = 64
LONGEST_PATTERN = 1_000
MOST_STEPS = 5_000
FORM_STEPS = 1_000_000
"""How many steps it may take to check the form of all schemas of one request."""
ITEMS_OF_A_STEP = 20
CHARACTERS_OF_A_STEP = 1_000
MOST_PROBLEMS = 5
LONGEST_VALUE = 60
LONGEST_PROBLEM = 400
MOST_CHOICES = 12
MOST_FORMS = 3

# jsonschema-rs holds the GIL for a whole check. With these keywords, which refer to nothing and compare no large
# values, it takes at most 5 ns for each part of the schema and byte of the value: 100 ms.
MAX_WORK = 20_000_000
# To compile these takes up to a millisecond each.
MAX_PATTERNS = 50
MAX_PATTERN_BYTES = 100_000
# Any other draft would be fetched.
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
)
_LISTS_OF_SCHEMAS = frozenset({"anyOf", "allOf", "oneOf"})
_KEYWORDS = _LISTS_OF_SCHEMAS | {
    *("type", "enum", "required", "properties", "additionalProperties", "items", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"),
    *("$defs", "definitions"),
}

_BREAKS_A_CHECK = (
    *(UnknownType, Unresolvable, RecursionError, ArithmeticError),
    *(TypeError, ValueError, AttributeError, LookupError),
)
_steps_left: ContextVar[list[int]] = ContextVar("steps_left")


class TooManySteps(ValueError):
    """A check has taken as many steps as it may."""


class Schema:
    """A JSON Schema of the draft that its `$schema` names, 2020-12 by default.

    To make a monstrous one takes up to a second unless `well_formed`: make it on a thread.

    Args:
        schema: the schema.
        well_formed: the caller knows already that its keywords have the right form.
        form_steps: one number, how many steps are left to check the form of this schema and of others.

    Raises:
        ValueError: it is too large, nested too deeply, or no schema.
    """

    def __init__(
        self, schema: Mapping[str, Any], *, well_formed: bool = False, form_steps: list[int] | None = None
    ) -> None:
        self._parts = check_size(schema)
        self._schema = schema
        draft = _draft_of(schema, Draft202012Validator)
        # A schema that jsonschema-rs compiles is well-formed; the draft's own schema takes milliseconds to say that.
        if not well_formed and (form_steps is not None or self._quick is None):
            _check_form(draft, schema, [FORM_STEPS] if form_steps is None else form_steps)
        self._judge = _guarded(draft)(schema, registry=Registry())

    def problems(self, value: Any, steps: list[int] | None = None) -> list[str]:
        """Name what is wrong with `value`, at most `MOST_PROBLEMS` things: each names the field and what it must be.

        What cannot be judged, because a reference leads nowhere or the check grows too long, is not a problem.
        Several checks can share `steps`: one number, how many are left. A value that fits takes a microsecond, but in
        such a check, where it takes steps, too.
        """
        if steps is None and self._fits(value):
            return []
        token = _steps_left.set([MOST_STEPS] if steps is None else steps)
        found: list[ValidationError] = []
        try:
            # One by one: what was found before the check breaks off is wrong all the same.
            found.extend(islice(self._judge.iter_errors(value), MOST_PROBLEMS))
        except _BREAKS_A_CHECK:
            pass
        finally:
            _steps_left.reset(token)
        return list(dict.fromkeys(map(_sentence, found)))

    @cached_property
    def _quick(self) -> Validator | None:
        return _quick_validator(self._schema)

    def _fits(self, value: Any) -> bool:
        """Return whether a value fits for certain; one that is too large, or no JSON, is left to the judge."""
        if self._quick is None:
            return False
        try:
            return len(to_json(value)) * self._parts <= MAX_WORK and self._quick.is_valid(value)
        except ValueError:
            return False


def _quick_validator(schema: Mapping[str, Any]) -> Validator | None:
    parts = list(_subschemas({keyword: rule for keyword, rule in schema.items() if keyword != "$schema"}))
    patterns = [part for part in parts if isinstance(part, Mapping) and "pattern" in part]
    if (
        schema.get("$schema", _DRAFTS[0]) not in _DRAFTS
        or len(patterns) > MAX_PATTERNS
        or not all(map(_is_usual, parts))
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
        elif keyword in _LISTS_OF_SCHEMAS and isinstance(rule, list):
            inner = rule
        else:
            inner = [rule] if keyword in ("items", "additionalProperties") else []
        for part in inner:
            yield from _subschemas(part)


def _is_usual(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    choices = schema.get("enum", [])
    return (
        all(keyword in _KEYWORDS or keyword.startswith("x-") for keyword in schema)
        and isinstance(choices, list)
        and all(isinstance(choice, str) or choice is None for choice in choices)
    )


def _check_form(draft: Any, schema: Mapping[str, Any], steps: list[int]) -> None:
    # Formats are not checked: "regex" would judge patterns of other dialects by Python's.
    token = _steps_left.set(steps)
    try:
        wrong = next(_guarded(draft)(draft.META_SCHEMA).iter_errors(schema), None)
    except TooManySteps:
        raise ValueError(
            f"the form of the schemas in this request takes more than {FORM_STEPS:,} steps to check; "
            "make them smaller or send fewer tools at once"
        ) from None
    except _BREAKS_A_CHECK as error:
        raise ValueError(f"it cannot be read: {type(error).__name__}") from None
    finally:
        _steps_left.reset(token)
    if wrong is not None:
        # Without what was given: it may be as long as it likes, and hold what is not to be repeated.
        raise ValueError(_claim(SchemaError.create_from(wrong)))


def check_size(schema: Mapping[str, Any]) -> int:
    """Count the parts of a schema; refuse one whose size alone would cost too much.

    Raises:
        ValueError: it has too many parts or is nested too deeply.
    """
    nodes, level = 0, [schema]
    for _ in range(DEEPEST):
        nodes += len(level)
        if nodes > MOST_NODES:
            raise ValueError(f"it has more than {MOST_NODES} parts")
        level = [inner for part in level for inner in _parts(part)]
        if not level:
            return nodes
    raise ValueError(f"it is nested more than {DEEPEST} levels deep")


@lru_cache(maxsize=1_024)
def matcher(pattern: str) -> Callable[[str], bool] | None:
    """Compile an expression for `search` in linear time; None for one that this engine does not have (lookarounds)."""
    if len(pattern) > LONGEST_PATTERN:
        return None
    try:
        matches = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except PatternError:
        return None
    return matches.isinstance_python


def _parts(part: Any) -> Any:
    if isinstance(part, Mapping):
        return part.values()
    return part if isinstance(part, list | tuple) else ()


@cache
def _guarded(draft: Any) -> Any:
    keywords = {name: _counted(check) for name, check in draft.VALIDATORS.items()}
    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique}
    # What no pattern accounts for cannot be told where patterns are of another engine.
    own["additionalProperties"] = _additional(draft.VALIDATORS["additionalProperties"])
    guarded: Any = extend(draft, keywords | {name: _counted(check) for name, check in own.items()})  # type: ignore[no-untyped-call]
    guarded.evolve = _evolve
    return guarded


def _draft_of(schema: Any, otherwise: Any) -> Any:
    named = isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str)
    return validator_for(dict(schema), default=otherwise) if named else otherwise


def _evolve(validator: Any, **changes: Any) -> Any:
    """Make the validator of a part of the schema; one that names a draft of its own (`$schema`) is guarded, too."""
    own = type(validator)
    draft = _draft_of(changes.setdefault("schema", validator.schema), own)
    for field in own.__attrs_attrs__:
        if field.init:
            changes.setdefault(field.alias, getattr(validator, field.name))
    return (own if draft is own else _guarded(draft))(**changes)


def _counted(check: Any) -> Any:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _take(1 + _weight(instance) + _weight(value))
        yield from check(validator, value, instance, schema) or ()

    return counted


def _take(steps: int) -> None:
    left = _steps_left.get()
    left[0] -= steps
    if left[0] < 0:
        raise TooManySteps


def _weight(value: Any) -> int:
    """Say what a keyword costs that looks at all of a value."""
    if isinstance(value, str):
        return len(value) // CHARACTERS_OF_A_STEP
    return len(value) // ITEMS_OF_A_STEP if isinstance(value, list | dict) else 0


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        matches = matcher(pattern)
        if matches is not None and not matches(instance):
            yield ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        _take(_weight(instance))
        matches = matcher(pattern)
        for name, value in instance.items() if matches is not None else ():
            if matches and matches(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional(check: Any) -> Any:
    def additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        matchers = [matcher(pattern) for pattern in schema.get("patternProperties", ())]
        if None in matchers:
            return
        known = schema.get("properties", ())
        _take(len(matchers) * _weight(instance))
        others = {
            name: value
            for name, value in instance.items()
            if name not in known and not any(matches(name) for matches in matchers if matches)
        }
        plain = {key: value for key, value in schema.items() if key not in ("patternProperties", "properties")}
        yield from check(validator, allowed, others, plain) or ()

    return additional


def _unique(_validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    items = instance if wanted and isinstance(instance, list) else []
    written = [dumps(item, sort_keys=True, default=str) for item in items]
    _take(sum(map(len, written)) // CHARACTERS_OF_A_STEP)
    if len(set(written)) < len(items):
        yield ValidationError("has equal items")


def _sentence(error: ValidationError) -> str:
    place, value = _place(error), error.instance
    rule: Any = error.validator_value
    forms = _forms(error)
    if forms:
        return " or ".join(_sentence(form) for form in forms[:MOST_FORMS])[:LONGEST_PROBLEM]
    if error.validator == "required":
        missing = next((name for name in rule if name not in value), "a field")  # type: ignore[operator]
        return f"{_joined(place, missing)} is required"[:LONGEST_PROBLEM]
    if error.validator == "additionalProperties" and rule is False:
        return _unknown_fields(place, error)[:LONGEST_PROBLEM]
    return f"{place or 'the arguments'} {_expected(error, rule)}"[:LONGEST_PROBLEM] + f"; got {shown(value)}"


def _claim(error: SchemaError) -> str:
    found = next(iter(_forms(error)), error)
    return f"{_place(found) or 'it'} {_expected(found, found.validator_value)}"[:LONGEST_PROBLEM]


def _forms(error: ValidationError | SchemaError) -> list[ValidationError]:
    """Give what is wrong by each branch that allows the value's type, the first thing of each."""
    if error.validator not in ("anyOf", "oneOf"):
        return []
    first = {inner.schema_path[0]: inner for inner in reversed(error.context or [])}
    return [inner for _, inner in sorted(first.items()) if not _is_of_other_type(inner)]


def _is_of_other_type(error: ValidationError | SchemaError) -> bool:
    return error.validator == "type" and not error.path


def _unknown_fields(place: str, error: ValidationError) -> str:
    parent, value = error.schema, error.instance
    known = list(parent.get("properties", ())) if isinstance(parent, Mapping) else []
    names = [name for name in value if name not in known]  # type: ignore[union-attr]
    listed = ", ".join(_joined(place, str(name)[:LONGEST_VALUE]) for name in names[:3])
    rest = f"; known: {_listed(known)}" if known else ""
    return f"{listed} is not a known field{rest}" if len(names) == 1 else f"{listed} are not known fields{rest}"


def _expected(error: ValidationError | SchemaError, rule: Any) -> str:
    if error.validator in ("anyOf", "oneOf") and error.context:
        refused = [inner for inner in error.context if _is_of_other_type(inner)]
        kinds = [name for inner in refused for name in _type_names(inner.validator_value)]
        return f"must be {_types(list(dict.fromkeys(kinds)))}"
    if error.validator == "type":
        return f"must be {_types(rule)}"
    if error.validator == "enum":
        return f"must be one of {_listed(rule)}" if len(rule) != 1 else f"must be {_bare(rule[0])}"
    return f"must satisfy {str(error.validator)[:40]}: {_bare(rule)}"


_ARTICLES = {"integer": "an integer", "object": "an object", "array": "a list", "null": "null"}


def _types(names: Any) -> str:
    kinds = [_ARTICLES.get(name, f"a {name}") for name in _type_names(names)]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _type_names(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else [str(name)[:LONGEST_VALUE] for name in names]


def _listed(choices: list[Any]) -> str:
    listed = ", ".join(_bare(choice) for choice in choices[:MOST_CHOICES])
    return listed if len(choices) <= MOST_CHOICES else f"{listed} or {len(choices) - MOST_CHOICES} others"


def _bare(value: Any) -> str:
    return value[:LONGEST_VALUE] if isinstance(value, str) else shown(value)


def shown(value: Any) -> str:
    """Show a value in a few words, however large it is."""
    match value:
        case str():
            cut = value[:LONGEST_VALUE]
            return repr(cut) if len(value) <= LONGEST_VALUE else f"{cut!r}… ({len(value)} characters)"
        case dict():
            return "an object"
        case list() | tuple():
            return f"a list of {len(value)} items"
        case bool() | None:
            return dumps(value)
        case int() if abs(value) >= 10**30:
            return "a very large number"
        case _:
            return str(value)[:LONGEST_VALUE]


def _place(error: ValidationError | SchemaError) -> str:
    place = ""
    for step in error.absolute_path:
        place = f"{place}[{step}]" if isinstance(step, int) else _joined(place, step)
    return place


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}"[-200:] if place else str(name)[:200]
