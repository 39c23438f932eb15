"""A fault undone by way of trial: edits of one statement, each applied to a copy of the candidate and checked again."""
