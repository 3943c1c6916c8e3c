"""The only loops that do input and output."""
