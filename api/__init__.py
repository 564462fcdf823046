"""Serve graphs over HTTP: the LangGraph-compatible API and our own routes."""

from toolweave.extras import require_extra

require_extra("server")
