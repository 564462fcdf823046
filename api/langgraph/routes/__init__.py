"""Answer the endpoints, one module per resource; a decorator describes each beside its handler."""
