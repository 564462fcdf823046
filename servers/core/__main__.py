"""Run the core server: `python -m toolweave.servers.core` (C-01)."""

import gc
import sys

# Imports create some 200 000 permanent objects; garbage collection meanwhile takes a third of the start time (T-01).
gc.disable()

from toolweave.extras import require_extra  # noqa: E402

require_extra("server", for_program=True)

from toolweave.servers.core.http_app import build_core_auth  # noqa: E402
from toolweave.servers.core.server import open_core_server  # noqa: E402
from toolweave.servers.program import run_server  # noqa: E402

sys.exit(
    run_server(
        module="toolweave.servers.core",
        description="Serve tools for common work over MCP: query a database, run jobs, read and search files. "
        "What they may do is set by TOOLWEAVE_QUERY_…, TOOLWEAVE_JOB_… and TOOLWEAVE_FILE_… variables.",
        default_port=8001,
        # Callers authenticate over HTTP only: stdio has no credentials.
        open_server=lambda settings: open_core_server(settings, auth=build_core_auth(settings)),
    )
)
