num_classes = 3
image_size = 48

anchor_generator = dict(type="AnchorGenerator", strides=[8, 16], ratios=[0.5, 1.0, 2.0], octave_base_scale=1.5, scales_per_octave=2)
bbox_coder = dict(type="DeltaXYWHCoder", means=[0.0, 0.0, 0.0, 0.0], stds=[0.1, 0.1, 0.2, 0.2], wh_ratio_clip=16 / 1000)

model = dict(
    type="RetinaNet",
    backbone=dict(type="SmallNet", channels=[12, 16, 24, 32], out_levels=[2, 3], groups=4),
    neck=dict(type="FPN", in_channels=[24, 32], out_channels=24),
    head=dict(type="RetinaHead", num_classes=num_classes, in_channels=24, feat_channels=24, stacked_convs=2, num_levels=2,
              anchors_per_cell=6, groups=4, prior=0.01),
)
train_cfg = dict(
    assigner=dict(type="MaxIoUAssigner", pos_iou=0.5, neg_iou=0.4),
    loss_cls=dict(type="FocalLoss", gamma=2.0, alpha=0.25, weight=1.0),
    loss_bbox=dict(type="SmoothL1Loss", beta=0.11, weight=1.0),
)
test_cfg = dict(top=8, iou=0.3)
img_norm = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
pipelines = dict(
    train=[dict(type="RandomFlip", prob=0.5), dict(type="Resize", size=image_size), dict(type="Normalize", **img_norm), dict(type="Pad", size=image_size), dict(type="Format", max_boxes=4)],
    val=[dict(type="Resize", size=image_size), dict(type="Normalize", **img_norm), dict(type="Pad", size=image_size), dict(type="Format", max_boxes=4)],
)
data = dict(train=dict(length=24, seed=100), val=dict(length=12, seed=900), batch_size=4)
optimizer = dict(lr=0.02, momentum=0.9, weight_decay=1e-3, norm_decay_mult=0.0, bias_lr_mult=2.0)
schedule = dict(warmup=4, warmup_ratio=0.1, milestones=[10, 16], gamma=0.1)
