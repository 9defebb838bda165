"""Services for programs: HTTP and MCP. Both call the facade and compute nothing themselves."""
