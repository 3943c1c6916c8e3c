"""HTTP: MCP at `/mcp`, every resource at its own path, and `/-/` for the server itself.

Loaded only for `serve --http`.
"""
