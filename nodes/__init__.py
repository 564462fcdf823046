"""Make graph nodes, chat models, prompts and the protocols through which graphs see tools."""
