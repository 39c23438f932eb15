import numpy as np
import paddle
import sklearn.datasets

GREYS = 17


class Digits(paddle.io.Dataset):
    """sklearn's digits; uniform noise, the same for a picture in every epoch, makes their greys continuous."""

    def __init__(self, split, count=80):
        super().__init__()
        pixels, kinds = sklearn.datasets.load_digits(return_X_y=True)
        begin = {"train": 0, "val": 1400}[split]
        self.pixels = pixels[begin:begin + count].reshape(-1, 1, 8, 8)
        self.kinds = kinds[begin:begin + count].astype("int64")
        self.first_seed = {"train": 0, "val": 10000}[split]

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, k):
        draw = np.random.RandomState(self.first_seed + k)
        x = (self.pixels[k] + draw.random_sample((1, 8, 8))) / GREYS
        return x.astype(np.float32), self.kinds[k]


def batches(split, size=16):
    return paddle.io.DataLoader(Digits(split), batch_size=size, shuffle=(split == "train"), drop_last=True)
