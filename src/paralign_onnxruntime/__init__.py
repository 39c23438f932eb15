"""ONNX Runtime for paralign: exported programs as sides.

An entry point of the package leads to it.
"""
