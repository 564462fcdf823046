"""Show a chat turn in the terminal as its events arrive."""

from typing import Any

from rich.console import Console

from toolweave.cli.terminal import call_text, harmless, shortened, styled


class Transcript:
    """Writes one chat after the other: tokens as they come, tool calls and results on lines of their own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._at_line_start = True
        self._written = ""

    def show(self, event: str, data: dict[str, Any]) -> None:
        """Write what one event of a chat says (the events of POST /chat/stream)."""
        if event == "token":
            self._written += data["text"]
            self._write(data["text"])
        elif event == "tool_call":
            self._line(f"  → {call_text(data['name'], data['args'])}", "cyan")
        elif event == "tool_result":
            failed = data["status"] == "error"
            self._line(f"  ← {data['name']}: {shortened(data['content'])}", "red" if failed else "green")
        elif event == "message":
            self._answer(data["content"])
        elif event == "error":
            self._line(f"The run failed: {data['message']}", "bold red")

    def _answer(self, content: str) -> None:
        """End the answer; write it when it was not streamed."""
        if not self._written.endswith(content):
            self._line(content, "")
        self._break()
        self._written = ""

    def _line(self, text: str, style: str) -> None:
        self._break()
        self._console.print(styled(text, style))

    def _write(self, text: str) -> None:
        self._console.print(harmless(text), end="")
        self._console.file.flush()
        self._at_line_start = text.endswith("\n")

    def _break(self) -> None:
        if not self._at_line_start:
            self._console.print()
            self._at_line_start = True
