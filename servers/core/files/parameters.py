"""Declare the parameters of the file tools: what a model reads about them and what is refused (C-02, C-07)."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path without NUL characters")
    return text


def _single_line(text: str) -> str:
    if any(character in text for character in "\0\n\r"):
        raise ValueError("a single line of text: files are searched line by line")
    return text


def _whole_number(value: object) -> object:
    # JSON has one kind of number: 3.0 is the whole number 3. Texts and booleans are not.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Path = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    AfterValidator(_without_nul),
    Field(
        description="The file, relative to the folder that may be read, with / between names, as search_files answers "
        "it. Where several folders may be read, it begins with the folder's name.",
        examples=["README.md", "docs/setup.md"],
    ),
]
StartLine = Annotated[
    int,
    Field(strict=True, ge=1, le=2**53 - 1),
    BeforeValidator(_whole_number),
    Field(description="The first line to read, counted from 1.", examples=[1, 201]),
]
MaxLines = Annotated[
    int,
    Field(strict=True, ge=1, le=1_000_000),
    BeforeValidator(_whole_number),
    Field(description="How many lines to read at most; all that follow, if left out.", examples=[200]),
]
Pattern = Annotated[
    str,
    Field(min_length=1, max_length=500),
    AfterValidator(_single_line),
    Field(
        description="Which files to find: a glob for their names (*.py, *report*) or, with a slash, for their paths "
        "below the directory (docs/**/*.md). With content=true: the text to find in files, taken literally.",
        examples=["*.py", "docs/**/*.md", "def main("],
    ),
]
Directory = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    AfterValidator(_without_nul),
    Field(description="The folder to search, with all folders in it; '.' is everything.", examples=[".", "docs"]),
]
Content = Annotated[
    bool,
    Field(
        strict=True, description="Search for the pattern in the files' text instead of their names.", examples=[True]
    ),
]
Files = Annotated[
    str,
    Field(min_length=1, max_length=500),
    AfterValidator(_single_line),
    Field(description="With content=true: search only files that this glob matches.", examples=["*.py", "src/**/*.ts"]),
]
IgnoreCase = Annotated[
    bool, Field(strict=True, description="Take capital and small letters for the same.", examples=[True])
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=1000),
    BeforeValidator(_whole_number),
    Field(description="How many matches to return at most.", examples=[100]),
]
