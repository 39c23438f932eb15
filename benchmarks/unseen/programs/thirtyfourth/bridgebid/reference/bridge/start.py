"""Initial values."""
from torch import nn


def initialise(model, depth=2):
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx].detach())
    for name, p in model.named_parameters():
        if name.endswith(("attn.out.weight", "feed.down.weight")):
            p.data.mul_((2 * depth) ** -0.5)
    return model
