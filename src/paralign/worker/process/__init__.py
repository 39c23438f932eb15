"""What a process depends on and does: files, variables, writes, what it asked about.

In: the process itself, by Python's audit events. Out: what a capture's reuse and a judge must know of it; a process that stands ready.
"""
