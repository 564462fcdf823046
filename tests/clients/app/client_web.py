"""The application beside the API: the gates, for clients in any language."""

from fastapi import FastAPI

from tests.fixtures.gated_app import gate_routes

app = FastAPI()
app.include_router(gate_routes)
