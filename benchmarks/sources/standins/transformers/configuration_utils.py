"""In place of configurations that are downloaded: the attributes that the models read."""


class PretrainedConfig:
    attribute_map = {}

    def __init__(self, **kwargs):
        self.output_attentions = False
        self.output_hidden_states = False
        self.return_dict = False
        self.use_return_dict = False
        self.chunk_size_feed_forward = 0
        self.is_decoder = False
        self.add_cross_attention = False
        self.pruned_heads = {}
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        mapped = type(self).attribute_map.get(name)
        if mapped is None:
            raise AttributeError(name)
        return getattr(self, mapped)
