"""A judge of ports that their authors cannot talk over.

In: a port's folder, and a specification that lies outside of it. Out: a verdict with its evidence. The port answers first: what it computes
for inputs and weights that are drawn anew is recorded, and its process ended, before the reference computes anything for them.
"""

from paralign.verification.certificate import Certificate, Judgement
from paralign.verification.rounds import verify

__all__ = ["Certificate", "Judgement", "verify"]
