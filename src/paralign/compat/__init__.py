"""Replacements for the tools that the porting guides use, with their names and files."""
