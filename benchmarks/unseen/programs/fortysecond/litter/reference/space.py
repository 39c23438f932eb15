"""Beaches near each other share what they have."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

EARTH_KM = 6371.0


def haversine(places):
    lat = np.deg2rad(np.array([float(p["lat"]) for p in places]))
    lon = np.deg2rad(np.array([float(p["lon"]) for p in places]))
    half_lat = np.sin((lat[:, None] - lat[None, :]) / 2) ** 2
    half_lon = np.sin((lon[:, None] - lon[None, :]) / 2) ** 2
    inside = half_lat + np.cos(lat)[:, None] * np.cos(lat)[None, :] * half_lon
    return 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(inside, 0, 1)))


class Neighbourhood(nn.Module):
    """Embeddings of beaches, smoothed along the coast with a learned reach."""

    def __init__(self, places, width, reach_km=15.0):
        super().__init__()
        self.register_buffer("distance", torch.tensor(haversine(places), dtype=torch.float32), persistent=False)
        self.vectors = nn.Parameter(torch.randn(len(places), width) * 0.3)
        self.reach = nn.Parameter(torch.full((1,), float(np.log(np.expm1(reach_km / 10)))))

    def forward(self, beach):
        reach = 10.0 * F.softplus(self.reach)
        kernel = torch.exp(-0.5 * (self.distance / reach) ** 2)
        kernel = kernel / kernel.sum(dim=1, keepdim=True)
        return (kernel @ self.vectors)[beach]
