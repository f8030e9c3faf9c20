"""The MCP server, with which a coding agent finds, explains, re-enacts and locks in runs. `tools` is what it offers."""
