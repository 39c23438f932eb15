from .ft_transformer import FTTransformer
