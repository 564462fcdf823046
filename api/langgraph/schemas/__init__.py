"""Describe the API's bodies as JSON Schemas: requests are checked against them, /openapi.json publishes them."""
