"""Data-parallel programs: what each process of a launched group does.

In: a job that a launcher started several times. Out: each rank's samples, gradients and parameters; the same batches in one process.
"""
