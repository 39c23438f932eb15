from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"

model = dict(
    obs=5, act=2,
    critic=dict(type="twin_q", hidden=(32, 24)),
    value=dict(type="value", hidden=(32, 24)),
    actor=dict(type="gaussian_actor", hidden=(24, 24), log_std_range=(-4.0, 1.0)),
)
algorithm = dict(gamma=0.97, expectile=0.7, temperature=3.0, max_weight=20.0, tau=0.02, actor_clip=0.5)
optimizers = dict(
    critic=dict(type="laprop", lr=1e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=1e-2),
    actor=dict(type="adam", lr=6e-4, eps=1e-5),
)
schedule = dict(total=20, final=0.1)
data = dict(batch_size=16, obs_eps=1e-3, reward_scale=10.0)
