"""Give the sections of langgraph.json their common form: closed for change, null meaning "as if absent"."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator

from toolweave.config.ignored_keys import ignored_keys
from toolweave.config.jsonc import JsoncDocument, JsonPath

Minutes = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_OTHER_LANGUAGES = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx")


def _checked_target(value: str) -> str:
    file_or_module, _, attribute = value.rpartition(":")
    if not file_or_module or not attribute.isidentifier():
        raise ValueError("must be of the form ./file.py:name or package.module:name")
    if file_or_module.endswith(_OTHER_LANGUAGES):
        raise ValueError("must name Python code: graphs in other languages cannot be served")
    return value


# `package.module:name` or `path/to/file.py:name`.
ImportTarget = Annotated[str, AfterValidator(_checked_target)]


class Section(BaseModel):
    """A part of langgraph.json; a member that is null has its default."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: item for key, item in value.items() if item is not None}


def unread_members(
    document: JsoncDocument, path: JsonPath, section: type[BaseModel], *, owner: str, known: Collection[str] = ()
) -> list[str]:
    """Write a warning for each key in the section at `path`, or in a section within it, that no field takes.

    `known` are keys that no field takes and the caller speaks of itself.
    """
    warnings = ignored_keys(document, path, {*_written_names(section), *known}, owner=f"{owner}: ")
    for name, part in _parts(section):
        warnings += unread_members(document, (*path, name), part, owner=f"{owner}.{name}")
    return warnings


def _written_names(section: type[BaseModel]) -> set[str]:
    names = set(section.model_fields)
    for field in section.model_fields.values():
        alias = field.validation_alias
        names |= {str(choice) for choice in alias.choices} if isinstance(alias, AliasChoices) else {str(alias or "")}
    return names - {""}


def _parts(section: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in section.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield name, kind
