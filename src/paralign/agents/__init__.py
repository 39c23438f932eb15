"""Tools for coding agents: paralign's commands, confined to one folder, with answers of bounded length (``paralign mcp``)."""
