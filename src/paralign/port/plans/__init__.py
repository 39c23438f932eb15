"""How a call is written in Paddle, or why it is not.

In: a call, what its arguments stand for, the catalogue. Out: a plan: name, arguments, what is accepted; or the reason of a refusal.
"""
