"""Let a test learn that a node waits, and let the node go on."""

from fastapi import FastAPI

from tests.fixtures.gated_app import gate_routes

app = FastAPI()
app.include_router(gate_routes)
