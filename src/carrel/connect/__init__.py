"""Connect hosts to Carrel: the facts about each host, the edit of its settings file, and the proof that it works.

Promises: no byte outside our entry changes, a removed entry leaves the file as it was, and a file that is broken,
read-only, of another owner or changed meanwhile is never written.
"""
