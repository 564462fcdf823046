"""Say what an entry still lacks before its server can be started: variables, and a program that we install."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolweave.cli.servers import Surveyed
from toolweave.config.mcp_editing import ready_made
from toolweave.config.settings import PREFIX
from toolweave.config.variables import find_references, resolve
from toolweave.servers.external.catalogue import Installation, installation_of
from toolweave.servers.external.installing import is_installed

SIGN_IN = "toolweave servers login"
ADVICE = {
    "down": 'Correct {given}its command or URL in mcp.jsonc, or disable it there with "enabled": false.',
    "connecting": "It is slow; see whether it starts by itself in a terminal.",
    "misconfigured": "Correct its entry in mcp.jsonc.",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What an entry lacks: variables without a value, and the program `to_install`.

    `given` are the variables that have the value of whoever runs it. `ready_made` is the name of the ready-made server
    whose program it starts, `program` that program.
    """

    variables: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    ready_made: str | None = None
    program: Installation | None = None
    to_install: bool = False

    @property
    def installed(self) -> bool | None:
        """Say whether its program is there; None where it is none of ours to install."""
        return None if self.program is None else not self.to_install


def needs_of(name: str, raw: Mapping[str, Any], variables: Mapping[str, str], data_dir: Path) -> Needs:
    """Look at an entry as it is written; nothing is started."""
    missing = find_references(dict(raw), variables).missing
    wanted = find_references(dict(raw), {}).missing
    given = tuple(each for each in wanted if each not in missing and not each.startswith(PREFIX))
    command = resolve(raw.get("command", ""), variables)
    for known in (name, *ready_made()):
        program = installation_of(known)
        if program is not None and command == str(data_dir.absolute() / "servers" / program.program):
            return Needs(missing, given, known, program, to_install=not is_installed(program, data_dir))
    return Needs(missing, given)


def advice(found: Surveyed, needs: Needs, variables_in: str = ".env") -> str | None:
    """Say what to do about a server that is not ready; None where the reason says so itself."""
    if needs.to_install:
        return f"Install it: toolweave servers add {needs.ready_made}"
    if needs.variables:
        return f"Set {', '.join(needs.variables)} in {variables_in} or in the environment."
    if found.reason and SIGN_IN in found.reason:
        return None  # it says by itself what to do
    given = f"the value of {', '.join(needs.given)}, " if needs.given else ""
    return ADVICE[found.state].format(given=given) if found.state in ADVICE else None
