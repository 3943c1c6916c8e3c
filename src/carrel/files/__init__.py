"""Open what may be opened, and nothing else.

Every file of a project is opened beneath a folder handle, past the list of secret names.
"""
