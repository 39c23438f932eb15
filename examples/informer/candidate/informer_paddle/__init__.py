"""The Informer in PaddlePaddle: the port."""
