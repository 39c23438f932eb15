"""Data sets and loaders: samples, batches, and what batches are fed from.

In: what ``build_dataset`` and ``build_dataloader`` give. Out: facts, fingerprints, draws of samplers; batches, put together again.
"""
