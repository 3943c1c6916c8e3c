"""The vocabulary: records, errors, URIs, templates, limits, and the class every provider inherits from.

Nothing here knows JSON-RPC or opens a file of a project.
"""
