"""A project to start from, with the names that the reference's source code tells."""

from paralign.scaffold.skeleton import write
from paralign.scaffold.survey import Survey, survey

__all__ = ["Survey", "survey", "write"]
