"""Define what goes to an API and what comes back (W-05, W-06)."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from toolweave.tool_config import Method


class HTTPRequestSpec(BaseModel):
    """A request without its credentials; `query` has what follows the URL: scalars, or lists for repeated names."""

    model_config = ConfigDict(extra="ignore")

    method: Method
    url: str = Field(min_length=1, max_length=8_192)
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, Any] = Field(default_factory=dict)
    body: Any = None

    @field_validator("method", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("headers", "query", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value


class HTTPResponseSpec(BaseModel):
    """An answer: header names in lower case; `body` is parsed JSON, text, or base64 where `body_encoding` says so."""

    status_code: int
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    execution_time_ms: float
    body_encoding: str | None = None
