"""The stage ``data``: samples, order and settings of data sets and loaders."""
