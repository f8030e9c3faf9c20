"""The seams of other remote calls: gRPC and MCP."""
