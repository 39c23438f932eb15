"""In place of loading, saving and generating: the class that models are derived from."""

import torch
from torch import nn


class PreTrainedModel(nn.Module):
    def __init__(self, config, *args, **kwargs):
        super().__init__()
        self.config = config

    def post_init(self):
        self.apply(self._init_weights)

    def _init_weights(self, module):
        pass

    @property
    def dtype(self):
        return next(iter(self.parameters())).dtype

    @property
    def device(self):
        return next(iter(self.parameters())).device

    def get_head_mask(self, head_mask, num_hidden_layers):
        return [None] * num_hidden_layers

    def warn_if_padding_and_no_attention_mask(self, input_ids, attention_mask):
        pass

    def get_extended_attention_mask(self, attention_mask, input_shape):
        mask = attention_mask[:, None, None, :].to(dtype=self.dtype)
        return (1.0 - mask) * torch.finfo(self.dtype).min

    def invert_attention_mask(self, encoder_attention_mask):
        mask = encoder_attention_mask[:, None, None, :].to(dtype=self.dtype)
        return (1.0 - mask) * torch.finfo(self.dtype).min


class SequenceSummary(nn.Module):
    pass
