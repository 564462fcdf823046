"""Stand in for npm and uv: programs of this machine's that say or do what a test wants, on a path of their own."""

import sys
from dataclasses import dataclass
from pathlib import Path

# What they would install: a program, where the real ones put it.
NPM_INSTALLS = """
import pathlib
folder = pathlib.Path("node_modules/.bin")
folder.mkdir(parents=True)
(folder / "mcp-server-memory").write_text("program", encoding="utf-8")
"""
UV_INSTALLS = """
if sys.argv[1] == "venv":
    folder = pathlib.Path(sys.argv[-1], "bin")
    folder.mkdir(parents=True)
    (folder / "mcp-server-time").touch()
    (folder / "python").touch()
"""


@dataclass(frozen=True)
class Programs:
    """A folder of programs, to be looked for there alone; each notes how it was called, and where."""

    path: Path

    def add(self, name: str, does: str = "") -> None:
        """Put a program there that runs a piece of Python."""
        noting = f"""
import pathlib, sys
with pathlib.Path({str(self.path / "calls")!r}).open("a", encoding="utf-8") as file:
    print({name!r}, *sys.argv[1:], file=file)
"""
        program = self.path / name
        program.write_text(f"#!{sys.executable}\n{noting}{does}", encoding="utf-8")
        program.chmod(0o755)

    def calls(self) -> list[str]:
        """List how they were called, in order."""
        noted = self.path / "calls"
        return noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
