"""Which one change of a formula makes its result the reference's.

It is tried in numpy on recorded values.

In: a fault and its recorded inputs. Out: a repair with the line that it changes, or none.
"""
