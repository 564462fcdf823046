"""Write docs/images: what the studio shows after a short conversation. Needs Node and Chromium."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.node_packages import node_with_packages

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "tests" / "clients" / "js"


def main() -> None:
    """Serve our graphs with an empty data folder, and photograph the pages."""
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, AppProcess(OURS, Path(folder), {}) as server:
        command = [node_with_packages(SCRIPTS), "studio_images.mjs", server.url, str(images)]
        subprocess.run(command, cwd=SCRIPTS, check=True)


if __name__ == "__main__":
    main()
