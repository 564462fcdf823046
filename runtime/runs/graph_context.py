"""Fit a run's context to what its graph declares."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import JsonObject


def context_for(graph: Graph, context: Mapping[str, Any] | None) -> JsonObject | None:
    """Give what the graph's context schema names, all of it without a schema; None for nothing.

    A dataclass or a model is made even of nothing, so that its defaults hold and a missing field is an error. What the
    schema does not name comes with `config.configurable`, which the context repeats.
    """
    schema = graph.context_schema
    given = dict(context or {})
    if not isinstance(schema, type):
        return given or None
    if issubclass(schema, BaseModel):
        open_to_all = schema.model_config.get("extra") is not None
        return given if open_to_all else _named(given, {*schema.model_fields, *_aliases(schema)})
    if is_dataclass(schema):
        return _named(given, {field.name for field in fields(schema) if field.init})
    return _named(given, set(getattr(schema, "__annotations__", given))) or None


def _named(given: JsonObject, names: set[str]) -> JsonObject:
    return {name: value for name, value in given.items() if name in names}


def _aliases(schema: type[BaseModel]) -> set[str]:
    found = (field.validation_alias or field.alias for field in schema.model_fields.values())
    return {alias for alias in found if isinstance(alias, str)}
