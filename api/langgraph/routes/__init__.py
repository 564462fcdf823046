"""Answer the endpoints, one module per resource; each lists its endpoints in a table at its end."""
