"""The first expression of the user's own Python whose result is wrong although all that it is made of is right."""
