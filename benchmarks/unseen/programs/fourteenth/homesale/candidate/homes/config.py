NUMERIC = ["area", "rooms", "age", "distance", "income", "energy"]
CATEGORIES = ["district", "heating", "condition", "seller"]
SPEED = {"fast": 0, "normal": 1, "slow": 2}

data = dict(batch=16, hide=0.1, levels=50, margin=0.002)

network = dict(
    width=32,
    n_heads=4,
    depth=3,
    hidden=48,
    p_drop=0.1,
)

training = dict(
    rate=2e-3,
    betas=(0.9, 0.98),
    epsilon=1e-6,
    decay=0.1,
    balance_scale=5.0,
    warm_steps=5,
    warm_from=0.1,
    all_steps=30,
    max_norm=0.5,
    accumulate=2,
    huber=0.5,
)
