"""The gates, over HTTP."""

from fastapi import FastAPI

from tests.fixtures.gated_app import gate_routes

app = FastAPI()
app.include_router(gate_routes)
