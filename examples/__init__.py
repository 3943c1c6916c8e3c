"""Things to try: a sample project, and a demonstration of what its desk holds."""
