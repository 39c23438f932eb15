"""writes vocab.*.txt, pairs.tsv, input/*.txt (fixed seed)"""
import random
rng = random.Random(7)
subj = [("the cat", "le chat"), ("the dog", "le chien"), ("a bird", "un oiseau"), ("the child", "l' enfant"), ("she", "elle"), ("he", "il")]
verb = [("sees", "voit"), ("wants", "veut"), ("eats", "mange"), ("finds", "trouve"), ("does not see", "ne voit pas")]
adj = [("red", "rouge"), ("blue", "bleu"), ("small", "petit"), ("old", "vieux")]
noun = [("apple", "pomme"), ("house", "maison"), ("book", "livre"), ("fish", "poisson"), ("garden", "jardin")]
tail = [("", ""), ("today", "aujourd'hui"), ("in the morning", "le matin"), ("again and again in the old house", "encore et encore dans la vieille maison")]
rows = []
for _ in range(46):
    s, v, a, n, t = (rng.choice(x) for x in (subj, verb, adj, noun, tail))
    en = f"{s[0]} {v[0]} the {a[0]} {n[0]} {t[0]}".strip()
    fr = f"{s[1]} {v[1]} la {n[1]} {a[1]} {t[1]}".strip()
    if rng.random() < 0.3:
        en, fr = f"{s[0]} {v[0]} {n[0]}", f"{s[1]} {v[1]} {n[1]}"
    rows.append((en, fr))
open("pairs.tsv", "w").write("".join(f"{a.capitalize()} .\t{b} .\n" for a, b in rows))
for side, name in ((0, "en"), (1, "fr")):
    count = {}
    for r in rows:
        for w in r[side].lower().split() + ["."]:
            count[w] = count.get(w, 0) + 1
    with open(f"vocab.{name}.txt", "w") as f:
        for w, c in sorted(count.items(), key=lambda x: (-x[1], x[0])):
            f.write(f"{w}\t{c}\n")
open("input/one.txt", "w").write("The cat sees the blue house .\n")
open("input/two.txt", "w").write("She wants a fish today .\nthe dog finds\n")
