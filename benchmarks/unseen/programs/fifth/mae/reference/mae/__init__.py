from .model import MaskedAutoencoderViT
