"""Call the HTTP APIs that ToolConfigs describe: build a request, send it, parse the response."""
