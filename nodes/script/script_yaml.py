"""Write a script as YAML that people read and edit; what reads it gets the same script back (A-04)."""

import re

import yaml

from toolweave.video_script import VideoScript

WIDTH = 100
# A text up to here stays on the line of its key.
ON_ONE_LINE = 60
# Blocks would lose them: a reader takes some for ends of lines, cannot read others, and counts blanks as indentation.
_NOT_IN_BLOCKS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_BLANK_AT_AN_EDGE = re.compile(r"(?m)^[^\S\n]|[^\S\n]$|\A\s|\s\Z")


def script_yaml(script: VideoScript) -> str:
    """Give the YAML of a script: always the same for the same one, long texts as blocks, what is absent left out."""
    return yaml.dump(
        script.model_dump(mode="json", exclude_none=True),
        Dumper=_ScriptDumper,
        sort_keys=False,
        allow_unicode=True,
        width=WIDTH,
    )


class _ScriptDumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of a list below its key."""
        super().increase_indent(flow, False)


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """Choose how a text is written; None lets YAML put it into quotes where it would be read as something else."""
    if _NOT_IN_BLOCKS.search(text) or _BLANK_AT_AN_EDGE.search(text):
        return '"'
    if "\n" in text:
        return "|"
    return ">" if len(text) > ON_ONE_LINE else None


_ScriptDumper.add_representer(str, _represented)
