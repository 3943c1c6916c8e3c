"""MCP without input and output: bytes in, values out, and back."""
