"""What is random: recorded on one side, given to the other, or drawn again.

In: a pass, a sample or a model's construction. Out: what it drew; the same with other draws; how models start under many seeds.
"""
