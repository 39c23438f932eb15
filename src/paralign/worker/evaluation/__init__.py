"""Metrics: what they give for each batch and in all, and how probes move them.

In: a side's metric or loss, outputs and labels. Out: values a batch and accumulated, steps of one use, labels that are left out.
"""
