"""settings of the experiment; one place for all modules"""
from types import SimpleNamespace

network = dict(emb=20, hidden=24, attn=16, readout=20)

corpus = dict(
    max_words=9,
    batch=6,
    dev_share=0.2,
)

training = dict(
    smoothing=0.1,
    coverage=0.3,
    betas=(0.9, 0.98),
    eps=1e-9,
    factor=0.5,
    warmup=8,
    clip=0.25,
)

search = dict(
    beam=4,
    max_len=14,
    alpha=0.6,
)

opt = SimpleNamespace(**network, **corpus, **training, **search)
