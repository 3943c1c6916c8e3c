"""The sources Carrel brings along; each comes in by the same door as a stranger's."""
