"""MobileNetV3-small in PaddlePaddle: the port."""
