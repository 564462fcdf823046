"""Run Toolweave from a terminal."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Keep the collector off while the block loads things, and off these things to the end of the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
