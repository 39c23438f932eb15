"""What an interpreter has and offers, told without any code of a side.

In: an interpreter, which runs these files as programs. Out: versions and cards, signatures, what a minimal program prints.
"""
