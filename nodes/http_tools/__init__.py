"""Call the operations of HTTP APIs that ToolConfigs describe: build a request, send it, read the answer."""
