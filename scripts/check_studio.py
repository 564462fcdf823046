"""Refuse built files of the studio that other sources than the present ones made."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

STUDIO = Path(__file__).parent.parent / "studio"
# As in studio/vite.config.ts, which writes the manifest.
SOURCE = re.compile(r"(index\.html|package-lock\.json|tsconfig\.json|vite\.config\.ts|(src|public)/.+)")


def source_hashes() -> dict[str, str]:
    """Return the SHA-256 of each source file by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    listing = subprocess.run(command, cwd=STUDIO, check=True, capture_output=True, text=True, encoding="utf-8")
    names = [name for name in listing.stdout.splitlines() if SOURCE.fullmatch(name) and ".test." not in name]
    paths = {name: STUDIO / name for name in sorted(names)}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if path.exists()}


def main() -> int:
    """Name the sources that the built files do not fit."""
    built = json.loads((STUDIO / "dist" / "manifest.json").read_text(encoding="utf-8"))
    now = source_hashes()
    changed = sorted(name for name in built.keys() | now.keys() if built.get(name) != now.get(name))
    for name in changed:
        print(f"studio/{name} is not what studio/dist was built from: run `make studio`")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
