from .config import CFG
