"""MobileNetV3-small in PyTorch: the program that is trusted."""
