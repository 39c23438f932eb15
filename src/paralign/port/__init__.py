"""From source to port: every call of a program, and what it becomes in Paddle."""
