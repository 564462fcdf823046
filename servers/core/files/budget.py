"""Bound what one call may take: time, files looked at, bytes read; and let its cancellation end it (C-05)."""

import threading
import time
from typing import Literal

Limit = Literal["results", "time", "files", "bytes", "cancelled"]


class Budget:
    """What is left for a call; shared between its thread and whoever cancels it."""

    def __init__(self, *, seconds: float, files: int, content_bytes: int) -> None:
        self._ends_at = time.monotonic() + seconds
        self._files_left = files
        self._bytes_left = content_bytes
        self._cancelled = threading.Event()
        self.reached: Limit | None = None

    def cancel(self) -> None:
        """Let the call's thread stop at the next file or piece."""
        self._cancelled.set()

    def allows(self, *, files: int = 0, content_bytes: int = 0) -> bool:
        """Take from what is left; no when a limit is reached, which `reached` then names."""
        self._files_left -= files
        self._bytes_left -= content_bytes
        if self._cancelled.is_set():
            self.reached = "cancelled"
        elif time.monotonic() >= self._ends_at:
            self.reached = "time"
        elif self._files_left < 0:
            self.reached = "files"
        elif self._bytes_left < 0:
            self.reached = "bytes"
        return self.reached is None
