"""Results shown: on the terminal, as JSON, as the files of the migration guides.

Renderers measure and judge nothing.
"""
