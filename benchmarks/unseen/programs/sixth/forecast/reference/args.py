from argparse import Namespace

args = Namespace(
    seq_len=48,
    pred_len=12,
    enc_in=4,
    kernel_size=13,
    d_model=32,
    n_blocks=2,
    n_freq=5,
    dropout=0.1,
    mark_dim=4,
    split=(0.6, 0.2, 0.2),
    batch_size=16,
    learning_rate=5e-3,
    lr_step=2,
    lr_gamma=0.5,
    l2=1e-4,
    beta=0.5,
    decay=0.97,
    grad_weight=0.1,
)
