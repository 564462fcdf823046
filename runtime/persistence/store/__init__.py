"""The long-term store that graphs and the API share: items in namespaces, with expiry and semantic search."""
