"""Operations on runs, each written once: command line, HTTP API, pages and MCP render their results."""
