"""List what each endpoint of the LangGraph API must do: one module per resource, {endpoint: behaviours}."""
