"""Start runs at set times: what a schedule means, and the clock that waits for it."""
