"""An inventory of a program: each call of a framework, and what it becomes.

In: source files, the catalogue, signatures. Out: rows with statuses, hints for a check's lines, requests for what Paddle lacks.
"""
