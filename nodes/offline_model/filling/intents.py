"""Name what a user wants done: one tool call each, complete or with what is still open about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolweave.nodes.offline_model.filling.targets import Target
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec


@dataclass(frozen=True)
class Intent:
    """One wanted call.

    `target` is set when the tool acts on a thing that must be found first. `added` names list arguments that extend
    what the thing has. `missing` are parameters the user has to be asked for, `too_long` the one whose text does not
    fit. `after` makes it wait for the intents before it; `guessed` lets a plainer request in the same message win.
    """

    tool: ToolSpec
    arguments: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    added: tuple[str, ...] = ()
    missing: tuple[Parameter, ...] = ()
    too_long: Parameter | None = None
    after: bool = False
    guessed: bool = False
