"""Pairs that are not the same model although their names say so, and what differs between them."""

DIFFERENCES = {
    ("nn.AvgPool2d(3,2,1)", "paddle.nn"): "Paddle leaves padding out of the mean unless exclusive=False",
}
