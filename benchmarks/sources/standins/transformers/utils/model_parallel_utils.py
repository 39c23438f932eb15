"""In place of models spread over devices."""


def assert_device_map(device_map, num_blocks):
    raise RuntimeError("one device only")


def get_device_map(n_layers, devices):
    raise RuntimeError("one device only")
