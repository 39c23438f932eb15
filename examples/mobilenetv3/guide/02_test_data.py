"""4.2 Data: length and the first batches of both loaders over lite_data."""

import numpy as np
from common import PROJECT, compare, log_of
from mobilenetv3 import data as torch_data
from mobilenetv3_paddle import data as paddle_data


def read(data):
    dataset = data.ImageFolder(PROJECT / "data" / "lite_data" / "val", data.preprocessing())
    values = {"length": np.array(len(dataset))}
    for index, (images, _) in enumerate(data.build_dataloader(dataset, shuffle=False, batch_size=4)):
        if index >= 4:
            break
        values[f"dataloader_{index}"] = images
    return log_of(values)


def test_data_pipeline():
    return compare("data", read(torch_data), read(paddle_data))


if __name__ == "__main__":
    raise SystemExit(0 if test_data_pipeline() else 1)
