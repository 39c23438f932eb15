"""A toy corpus of weather reports from a small grammar (fixed seed)."""
import os
import random

r = random.Random(77)
places = "north south coast valley city islands harbour hills".split()
things = "rain snow fog sun wind hail clouds storms".split()
verbs = "moves reaches leaves covers crosses follows".split()
times = "today tonight tomorrow later early soon".split()
adjs = "heavy light thick brief cold warm strong".split()


def sentence():
    parts = ["the", r.choice(adjs), r.choice(things), r.choice(verbs), "the", r.choice(places)]
    if r.random() < 0.6:
        parts += [r.choice(times)]
    if r.random() < 0.5:
        parts += ["and", r.choice(adjs), r.choice(things), r.choice(verbs), "the", r.choice(places)]
    if r.random() < 0.25:
        parts += ["with", r.choice(adjs), r.choice(things), "over", "the", r.choice(places), "and", "the", r.choice(places)]
    return " ".join(parts) + " ."


with open("weather.txt", "w") as f:
    for _ in range(40):
        f.write(sentence() + "\n")
os.makedirs("queries", exist_ok=True)
open("queries/a.txt", "w").write("the heavy [MASK] covers the coast today .\n")
open("queries/b.txt", "w").write("the cold wind [MASK] the hills and thick [MASK] follows the zeppelin .\n")
