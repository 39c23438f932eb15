"""The first expression of the user's Python that is wrong although its operands are right."""
