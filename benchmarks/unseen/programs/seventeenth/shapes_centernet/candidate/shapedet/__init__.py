"""Anchor-free detection of shapes, in Paddle."""
