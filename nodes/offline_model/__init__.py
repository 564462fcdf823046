"""A deterministic chat model made of rules, for a machine without an API key (O-01 to O-04)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolweave.nodes.offline_model.model import OfflineChatModel

__all__ = ["OfflineChatModel"]


def __getattr__(name: str) -> Any:
    """Import the model at its first use: the search for tools needs the English of this package only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.model").OfflineChatModel
