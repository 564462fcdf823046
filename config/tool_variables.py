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
from toolweave.config.outbound_allow import AllowedTarget, allowed_target
from toolweave.errors import ConfigError, MissingVariable

DEFAULT = "TOOL_*"
SETTING = "TOOLWEAVE_TOOL_ENV"
_ENTRY = re.compile(r"(?P<names>[A-Za-z_*?][A-Za-z0-9_*?]*)(?:@(?P<host>[^/]+))?")
_REFERENCE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)")
# A host is written without the port that its scheme has anyway.
_USUAL_PORTS = (80, 443)


@dataclass(frozen=True, slots=True)
class AllowedVariable:
    """A glob of variable names, in which case counts, and the one host that their values may go to.

    A host without a port stands for the usual port only, not for every one.
    """

    names: str
    host: str | None = None

    def covers(self, name: str, authority: str) -> bool:
        """Say whether a variable's value may go to `authority`: a host with its port unless that is the usual one."""
        return fnmatchcase(name, self.names) and (self.host is None or _place(self.host) == _place(authority))


@dataclass(frozen=True, slots=True)
class ToolVariables:
    """The setting: which variables tool configurations may refer to."""

    allowed: tuple[AllowedVariable, ...] = (AllowedVariable(DEFAULT),)

    def refused(self, texts: Mapping[str, str], authority: str) -> list[str]:
        """List what is wrong with references in `texts`, by where they stand; the tool's host is `authority`."""
        problems = []
        for place, text in texts.items():
            if malformed_references(text) or find_references(text, {}).inputs:
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
    """Split at commas; each entry is a glob of names, also with `@host`; raises ValueError, without repeating it."""
    if not isinstance(value, str):
        return value
    return ToolVariables(tuple(_entry(part.strip()) for part in value.split(",") if part.strip()))


def _entry(text: str) -> AllowedVariable:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise ValueError("must be names of variables with * and ?, each also with @host, separated by commas")
    entry = AllowedVariable(found["names"], found["host"])
    if entry.host is not None:
        _place(entry.host)
    return entry


def _place(host: str) -> AllowedTarget:
    """Read a host as `TOOLWEAVE_OUTBOUND_ALLOW` has them, so that every spelling of one is the same."""
    try:
        place = allowed_target(host)
    except ValueError:
        raise ValueError("what follows an @ must be one host, with its port unless that is the usual one") from None
    return AllowedTarget(place.place) if place.port in _USUAL_PORTS else place
