"""Find faults of an installation, a project and the hosts, and fix those that can be fixed.

One check is one function with an id (`checks`). It looks at a `Setup` and yields findings. Checks stand in modules by
subject: `installation`, `settings`, `trust`, `providers`, `http`, `index`, `system`, `server`, `hosts`. `examination`
runs them all, each on a thread with a deadline: one that hangs does not delay the others.
"""
