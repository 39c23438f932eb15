MODEL = dict(word_size=20, shape_size=5, lstm_size=16, drop_rate=0.3)
DATA = dict(max_len=12, batch_size=8)
OPTIM = dict(base_lr=0.05, crf_lr_mult=5.0, momentum=0.9, l2=1e-3, max_norm=2.0, gamma=0.93)
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
