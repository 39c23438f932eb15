"""The experiment."""
STRIDE = 2
FLIP_PAIRS = ((2, 3), (4, 5))

model = dict(
    name="hr_two",
    stem=12,
    widths=(10, 16),
    num_stages=2,
    num_joints=6,
    bn=dict(momentum=0.95, epsilon=1e-4),   # Paddle's momentum is the share of the old value
    residual_gain=0.5,
    beta=8.0,
    stride=STRIDE,
)

train_transforms = [
    dict(name="crop", size=32, margin=1.25),
    dict(name="flip_odd", pairs=FLIP_PAIRS),
    dict(name="standardise", mean=(38.0, 36.5, 40.2), std=(44.1, 42.8, 47.0)),
    dict(name="heatmaps", stride=STRIDE, sigma=1.2, occluded=0.5),
]
val_transforms = [t for t in train_transforms if t["name"] != "flip_odd"]

criterion = dict(name="heatmap_wing", num_hard=4, hard_share=0.3, wing_width=5.0, wing_curvature=1.5, wing_share=0.02)

optimizer = dict(learning_rate=0.05, momentum=0.9, use_nesterov=True, weight_decay=1e-3)
lookahead = dict(k=2, alpha=0.6)
schedule = dict(warmup=4, start=0.1, milestones=(20, 30), gamma=0.2)
batch_size = 4
