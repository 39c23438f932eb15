"""Optimizers and schedules of a side, one or several: what they say and keep.

In: what ``build_optimizer`` and ``build_scheduler`` give. Out: settings of each parameter, states read and written, rates.
"""
