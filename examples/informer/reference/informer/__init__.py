"""The Informer (arXiv 2012.07436) in PyTorch: the program that is trusted."""
