"""Run Toolweave from a terminal."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection while the block loads objects, and exempt these objects from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
