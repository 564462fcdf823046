"""Refuse a studio that was built from other sources than the present ones, or that is too large."""

import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

STUDIO = Path(__file__).parent.parent / "studio"
DIST = STUDIO / "dist"
ASSETS = DIST / "assets"
# Bytes as the server compresses the files; the first load is that of the chat page.
FIRST_LOAD_BYTES, TOTAL_BYTES = 300_000, 600_000
# Lines of TypeScript without tests, blank lines and comments.
MAX_CODE_LINES = 4_500
COMMENT = re.compile(r"^\s*(/\*.*?\*/|//[^\n]*)\s*$", re.DOTALL | re.MULTILINE)
# As in studio/vite.config.ts, which writes the manifest.
SOURCE = re.compile(r"(index\.html|package-lock\.json|tsconfig\.json|vite\.config\.ts|(src|public)/.+)")


def source_hashes() -> dict[str, str]:
    """Return the SHA-256 of each source file by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    listing = subprocess.run(command, cwd=STUDIO, check=True, capture_output=True, text=True, encoding="utf-8")
    names = [name for name in listing.stdout.splitlines() if SOURCE.fullmatch(name) and ".test." not in name]
    paths = {name: STUDIO / name for name in sorted(names)}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if path.exists()}


def code_lines() -> int:
    """Count the lines of code of the sources in TypeScript."""
    files = [file for file in STUDIO.glob("src/**/*.ts*") if ".test." not in file.name]
    texts = [COMMENT.sub("", file.read_text(encoding="utf-8")) for file in files]
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def compressed_bytes(files: Iterable[Path]) -> int:
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def first_load() -> set[Path]:
    """Return the files that index.html and the chat page load: scripts, what they import, their styles."""
    page = DIST / "index.html"
    found, waiting = {page}, {ASSETS / name for name in re.findall(r'"\./assets/([^"]+)"', page.read_text("utf-8"))}
    waiting.update(ASSETS.glob("chat-*"))
    while new := waiting - found:
        found |= new
        texts = [file.read_text("utf-8") for file in new if file.suffix == ".js"]
        imported = {name.partition("-")[0] for text in texts for name in re.findall(r'from"\./([^"]+)"', text)}
        waiting = {file for name in imported for file in ASSETS.glob(f"{name}-*")}
    return found


def problems() -> Iterator[str]:
    """Name the sources that the built files do not fit, and the limits that they exceed."""
    built = json.loads((DIST / "manifest.json").read_text(encoding="utf-8"))
    now = source_hashes()
    for name in sorted(name for name in built.keys() | now.keys() if built.get(name) != now.get(name)):
        yield f"studio/{name} is not what studio/dist was built from: run `make studio`"
    all_files = [file for file in DIST.rglob("*") if file.is_file()]
    for label, files, limit in (("first load", first_load(), FIRST_LOAD_BYTES), ("all", all_files, TOTAL_BYTES)):
        if (size := compressed_bytes(files)) > limit:
            yield f"studio/dist ({label}): {size} bytes compressed, the limit is {limit}"
    if (lines := code_lines()) > MAX_CODE_LINES:
        yield f"studio/src has {lines} lines of TypeScript, the limit is {MAX_CODE_LINES}"


def main() -> int:
    """Print the problems."""
    found = list(problems())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
