"""Accept the arguments of a usual tool in microseconds; whatever is unusual or refused is for `schema.Schema` to judge.

A schema is compiled into closures that say yes or no. Only keywords whose meaning is the same in every draft are
understood, and a schema with any other one, or with a keyword of the wrong form, is not compiled.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from toolweave.schema import matcher

Fits = Callable[[Any], bool]

_ANNOTATIONS = frozenset(
    {
        *("$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("format", "contentMediaType", "contentEncoding", "$defs", "definitions"),
    }
)


class _Unusual(Exception):
    """The schema has something that is not compiled."""


def quick_check(schema: Mapping[str, Any]) -> Fits | None:
    """Compile a schema; None for an unusual one. The caller has bounded its size and depth."""
    try:
        return _compile(schema)
    except _Unusual:
        return None


def _compile(schema: Any) -> Fits:
    if schema is True:
        return lambda _: True
    if not isinstance(schema, Mapping):
        raise _Unusual
    rules = {key: rule for key, rule in schema.items() if key not in _ANNOTATIONS and not key.startswith("x-")}
    checks = [_MAKERS[key](rule, schema) if key in _MAKERS else _unusual() for key, rule in rules.items()]
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _unusual() -> Fits:
    raise _Unusual


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS: Mapping[str, Fits] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
}


def _type(rule: Any, _schema: Any) -> Fits:
    names = rule if isinstance(rule, list) else [rule]
    if not names or not all(isinstance(name, str) and name in _IS for name in names):
        raise _Unusual
    tests = [_IS[name] for name in names]
    return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)


def _enum(rule: Any, _schema: Any) -> Fits:
    if not isinstance(rule, list) or not all(isinstance(choice, str) or choice is None for choice in rule):
        raise _Unusual
    allowed = frozenset(rule)
    return lambda value: (isinstance(value, str) or value is None) and value in allowed


def _required(rule: Any, _schema: Any) -> Fits:
    if not isinstance(rule, list) or not all(isinstance(name, str) for name in rule):
        raise _Unusual
    names = frozenset(rule)
    return lambda value: not isinstance(value, dict) or names <= value.keys()


def _properties(rule: Any, _schema: Any) -> Fits:
    if not isinstance(rule, Mapping):
        raise _Unusual
    checks = {name: _compile(part) for name, part in rule.items()}

    def fits(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        return all(checks[name](item) for name, item in value.items() if name in checks)

    return fits


def _additional(rule: Any, schema: Any) -> Fits:
    known = frozenset(schema.get("properties") or ())
    if rule is False:
        return lambda value: not isinstance(value, dict) or value.keys() <= known
    other = _compile(rule)
    return lambda value: (
        not isinstance(value, dict) or all(other(item) for name, item in value.items() if name not in known)
    )


def _items(rule: Any, _schema: Any) -> Fits:
    part = _compile(rule)
    return lambda value: not isinstance(value, list) or all(part(item) for item in value)


def _any_of(rule: Any, _schema: Any) -> Fits:
    if not isinstance(rule, list) or not rule:
        raise _Unusual
    parts = [_compile(part) for part in rule]
    return lambda value: any(part(value) for part in parts)


def _pattern(rule: Any, _schema: Any) -> Fits:
    matches = matcher(rule) if isinstance(rule, str) else _unusual()
    if matches is None:
        raise _Unusual
    return lambda value: not isinstance(value, str) or matches(value)


def _bound(applies: Fits, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Fits]:
    def make(rule: Any, _schema: Any) -> Fits:
        if not _is_number(rule) or not -inf < rule < inf:
            raise _Unusual
        return lambda value: not applies(value) or holds(value, rule)

    return make


_MAKERS: Mapping[str, Callable[[Any, Any], Fits]] = {
    "type": _type,
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "anyOf": _any_of,
    "pattern": _pattern,
    "minimum": _bound(_is_number, lambda value, limit: value >= limit),
    "maximum": _bound(_is_number, lambda value, limit: value <= limit),
    "minLength": _bound(_IS["string"], lambda value, limit: len(value) >= limit),
    "maxLength": _bound(_IS["string"], lambda value, limit: len(value) <= limit),
    "minItems": _bound(_IS["array"], lambda value, limit: len(value) >= limit),
    "maxItems": _bound(_IS["array"], lambda value, limit: len(value) <= limit),
}
