"""What two notes are to each other: buckets, gaps, who sounds when."""
import math

import torch

BUCKETS, NEAR, FAR = 16, 4, 40


def interval_bucket(pitch):
    """Signed interval from note j to note i: small ones each its own bucket, large ones by logarithm."""
    interval = pitch.unsqueeze(2) - pitch.unsqueeze(1)
    size = interval.abs()
    half = BUCKETS // 2
    grown = NEAR + torch.log(size.clamp(min=NEAR) / NEAR) / math.log(FAR / NEAR) * (half - NEAR)
    bucket = torch.where(size < NEAR, size, grown).floor().long().clamp(max=half - 1)
    return bucket + half * (interval > 0).long()


def sounding(onset, length, real):
    """[b, i, j]: note j sounds when note i begins."""
    begun = onset.unsqueeze(1) <= onset.unsqueeze(2)
    held = (onset + length).unsqueeze(1) > onset.unsqueeze(2)
    return (begun & held).to(real.dtype) * real.unsqueeze(1)


def may_follow(onset, length, real, slack=0.01):
    """[b, i, j]: note j has ended when note i begins, not longer than four beats ago."""
    gap = onset.unsqueeze(2) - (onset + length).unsqueeze(1)
    return (gap >= -slack) & (gap <= 4.0) & (real.unsqueeze(1) > 0)


def pair_features(pitch, onset, length):
    gap = onset.unsqueeze(2) - (onset + length).unsqueeze(1)
    leap = (pitch.unsqueeze(2) - pitch.unsqueeze(1)) / 12.0
    return torch.stack([gap.clamp(0.0, 4.0), leap, leap.abs(), torch.exp(-6.0 * leap * leap)], dim=-1)
