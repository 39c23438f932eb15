"""one dictionary, as an experiment's YAML would give it"""

SETTINGS = {
    "data": {
        "file": "bikes.csv",
        "holdout": 5,
        "batch_size": 8,
        "categories": ["station", "weather", "day"],
        "numbers": ["temp", "humidity", "wind"],
        "log": ["wind"],
        "day_hours": 24,
    },
    "model": {
        "embedding": 5,
        "bins": 6,
        "width": 32,
        "layers": ["gated", "narrow", "gated"],
        "experts": 3,
        "expert_width": 16,
        "norm": {"momentum": 0.95, "epsilon": 1e-3},
        "log_var": [0.1, -0.1, 0.2],
    },
    "tasks": [
        {"name": "rented", "head": "levels", "loss": "pinball", "levels": [0.1, 0.5, 0.9], "weight": 1.0},
        {"name": "returned", "head": "levels", "loss": "smooth_pinball", "levels": [0.25, 0.5, 0.75], "weight": 0.7,
         "options": {"kappa": 0.2}},
        {"name": "broken", "head": "rate", "loss": "poisson", "weight": 0.3},
    ],
    "optimizer": {
        "rate": {"learning_rate": 0.02, "decay_steps": 40, "end_lr": 0.001, "power": 2.0},
        "weight_decay": 0.02,
        "clip": 1.0,
        "epsilon": 1e-6,
        "trust": 10.0,
    },
}
