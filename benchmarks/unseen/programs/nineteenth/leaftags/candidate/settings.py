import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")

network = dict(width=48, window=3, rates=[1, 2, 4], drop=0.1)
text = dict(limit=28, min_count=3, word_drop=0.12)
loader = dict(batch=12, bucket=48, seed=77)
solver = dict(base_lr=2e-3, decay_per_layer=0.7, weight_decay=0.05, beta1=0.9, beta2=0.98, epsilon=1e-6, warmup=8, max_norm=1.0, epochs=2)
objective = dict(beta=0.98, consistency=0.5)
