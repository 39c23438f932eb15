"""One program rewritten for Paddle, place by place.

In: a tree with what its expressions stand for. Out: every edit: imports, calls, operators, names, settings; and the ledger's rows.
"""
