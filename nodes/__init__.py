"""Graph nodes, chat models, prompts, and the tool catalogues that graphs use."""
