"""What git knows about a project, read in this process from the repository's files.

No process is started: git itself may run programs that a repository's configuration names, to fetch a missing object or
to compare a changed file. Nothing here fetches, writes, or follows what a repository says to places outside it; see
`discovery` for where a repository may lie, and `objects` for the limits.
"""
