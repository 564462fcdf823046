"""Start the core server."""

import gc
import sys

# Importing makes some 200 000 objects that live to the end; collecting among them takes a third of the start (T-01).
gc.disable()

from toolweave.servers.core.command import main  # noqa: E402

sys.exit(main())
