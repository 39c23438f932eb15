"""The stage ``train``: whole trainings, step by step and by statistics."""
