"""What is known of PyTorch without importing it."""

from __future__ import annotations

from paralign.adapters.profile import Profile

#: see :attr:`paralign.adapters.profile.Profile.program`
_PROGRAM = """
import torch

without_gradients = torch.no_grad


def place(device):
    name = device.replace("gpu", "cuda")
    return torch.device("cuda:0" if name == "cuda" else name)


def start(seed, device):
    if device != "cpu":
        torch.cuda.set_device(place(device))
    torch.manual_seed(seed)


def on_device(model, device):
    return model.to(place(device)) if device != "cpu" else model


def tensor(array, dtype):
    return torch.as_tensor(array).to(dtype=getattr(torch, dtype), device=place(settings["device"]))


def array_of(value):
    if not isinstance(value, torch.Tensor):
        return None
    value = value.detach().cpu()
    if value.is_sparse:
        value = value.to_dense()
    if value.is_floating_point() and value.dtype not in (torch.float16, torch.float32, torch.float64):
        value = value.float()
    return value.resolve_conj().resolve_neg().numpy()


def load(model, weights):
    places = {**dict(model.named_parameters()), **dict(model.named_buffers()), **model.state_dict(keep_vars=True)}
    with torch.no_grad():
        for name, (array, _) in weights.items():
            if name in places:
                places[name].copy_(torch.as_tensor(array))
    return [name for name in weights if name not in places]


def evaluate(model):
    model.eval()


def differentiable(model):
    model.eval()
    for layer in model.modules():
        if isinstance(layer, torch.nn.RNNBase):
            layer.training, layer.dropout = True, 0.0


def train(model):
    model.train()
    for layer in model.modules():
        names = " ".join(base.__name__ for base in type(layer).__mro__)
        if not list(layer.children()) and any(word in names for word in ("Dropout", "DropPath", "DropBlock", "StochasticDepth", "RReLU")):
            layer.eval()
        if isinstance(getattr(layer, "dropout", None), float):
            layer.dropout = 0.0


def differentiate(loss):
    loss.backward()


def forget(model):
    model.zero_grad()


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}
"""

PROFILE = Profile(
    "torch",
    unbiased_variance=True,
    launcher="torchrun",
    initialisers="torch.nn.init",
    distributions={"cpu": "torch", "gpu": "torch"},
    gpu_build="install the CUDA build: https://pytorch.org/get-started/locally",
    deterministic="torch.backends.cudnn.deterministic = True in the side's module",
    switches=(("layernorm", "elementwise_affine"), ("rmsnorm", "elementwise_affine"), ("norm", "affine"), ("", "{leaf}")),
    not_tuned="torch.backends.cudnn.benchmark = False in the side's module",
    program=_PROGRAM,
)
