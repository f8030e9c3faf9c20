"""The MCP server, with which a coding agent finds, explains, re-enacts and locks in runs. Its tools are in `tools`."""
