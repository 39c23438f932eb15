"""Codes of stitches: index in TABLE. Each has a colour in the chart and a change of the stitch count."""

TABLE = (
    # name, colour in the chart, stitches added
    ("none", (245, 245, 245), 0),
    ("knit", (255, 214, 120), 0),
    ("purl", (120, 140, 200), 0),
    ("yarn over", (60, 180, 90), 1),
    ("k2tog", (220, 60, 60), -1),
    ("ssk", (200, 60, 200), -1),
    ("cable left", (40, 40, 40), 0),
    ("cable right", (130, 80, 40), 0),
)
KINDS = len(TABLE)
NO_STITCH = 0
CHANGE = [t[2] for t in TABLE]
FROM_BEHIND = [0, 2, 1, 3, 4, 5, 6, 7]  # a knit stitch is a purl stitch on the other side
