"""What runs inside a side's own environment: a job in, a capture out.

Python 3.8, numpy and the framework, nothing else.
"""
