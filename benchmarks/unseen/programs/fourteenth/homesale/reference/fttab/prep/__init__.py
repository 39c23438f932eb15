from .dataset import ListingTable, TrainNoise, collate, get_encoder
from .encoder import TableEncoder
