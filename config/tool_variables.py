"""Say which environment variables tool configurations may refer to, and where their values may be sent (W-01, W-08).

Who may register tools may send what `{env:VAR}` stands for to a host of their choice. So only variables that
TOOLWEAVE_TOOL_ENV names can be referred to, each, if the operator says so, for one host only:
`TOOL_SHOP_*@api.shop.com`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from toolweave.config.interpolate import filled_in_values, find_references, malformed_references, resolve
from toolweave.errors import ConfigError, MissingVariable

DEFAULT = "TOOL_*"
SETTING = "TOOLWEAVE_TOOL_ENV"
_ENTRY = re.compile(r"(?P<names>[A-Za-z_*?][A-Za-z0-9_*?]*)(?:@(?P<host>[A-Za-z0-9.:\[\]_-]+))?")
_REFERENCE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class AllowedVariable:
    """A glob of variable names, and the one host, with its port if given, that their values may go to."""

    names: str
    host: str | None = None

    def covers(self, name: str, authority: str) -> bool:
        """Say whether a variable's value may go to `authority`: a host with its port unless that is the usual one."""
        return fnmatchcase(name, self.names) and self.host in (None, authority)


@dataclass(frozen=True, slots=True)
class ToolVariables:
    """The setting: which variables tool configurations may refer to."""

    allowed: tuple[AllowedVariable, ...] = (AllowedVariable(DEFAULT),)

    def refused(self, texts: Mapping[str, str], authority: str) -> list[str]:
        """List what is wrong with references in `texts`, by where they stand; the tool's host is `authority`."""
        problems = []
        for place, text in texts.items():
            if malformed_references(text):
                problems.append(f"{place} holds a reference that is not of the form {{env:NAME}}.")
            problems += [
                f"{place} refers to {name}, which {SETTING} does not allow for {authority}."
                for name in dict.fromkeys(_REFERENCE.findall(text))
                if not any(entry.covers(name, authority) for entry in self.allowed)
            ]
        return problems

    def resolve(self, text: str, authority: str, environ: Mapping[str, str] | None = None) -> str:
        """Fill in the variables of a text that goes to `authority` (default: from the process's environment).

        Raises:
            ConfigError: one may not be referred to for this host.
            MissingVariable: one has neither a value nor a default.
        """
        if problems := self.refused({"The tool's configuration": text}, authority):
            raise ConfigError(" ".join(problems), fix=f"The operator of this server adds it to {SETTING}.")
        values = os.environ if environ is None else environ
        if missing := find_references(text, values).missing:
            raise MissingVariable(missing)
        return str(resolve(text, values))

    def filled_in(self, text: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """List the values that `resolve` takes from the environment for a text."""
        return filled_in_values(text, os.environ if environ is None else environ)


def tool_variables(value: Any) -> Any:
    """Split at commas; each entry is a glob of names, also with `@host`; raises ValueError."""
    if not isinstance(value, str):
        return value
    found = [_ENTRY.fullmatch(part.strip()) for part in value.split(",") if part.strip()]
    if not all(found):
        raise ValueError("must be names of variables with * and ?, each also with @host, separated by commas")
    return ToolVariables(tuple(AllowedVariable(entry["names"], entry["host"]) for entry in found if entry))
