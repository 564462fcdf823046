"""Choose a tool for a clause and fill its arguments from the words."""
