"""Get, keep and renew the tokens for remote MCP servers that ask for OAuth."""
