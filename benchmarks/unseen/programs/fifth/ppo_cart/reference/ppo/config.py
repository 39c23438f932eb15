CFG = {
    "env": {"seed": 11, "max_steps": 10, "gravity": 0.03, "thrust": 0.09, "noise": 0.02},
    "model": {"obs_dim": 5, "n_actions": 4, "hidden": 32, "obs_clip": 5.0},
    "ppo": {"gamma": 0.97, "lam": 0.9, "clip": 0.2, "vf_clip": 0.3, "vf_coef": 0.5, "ent_coef": 0.01, "rollout": 96},
    "optim": {"lr": 7e-4, "eps": 1e-5, "max_grad_norm": 0.5, "updates": 20, "lr_floor": 0.1},
}
