"""Which functions of PyTorch give a new tensor, a view, or several of them."""

from __future__ import annotations

import ast

#: attributes of a tensor that are parts or other forms of it
VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag"})

#: attributes of a tensor that are tensors, and none of its forms
OF_TENSORS = frozenset({"data", "grad"})

#: methods of a layer that give the tensors it holds
OF_LAYERS = frozenset({"buffers", "named_buffers", "named_parameters", "parameters", "state_dict"})

#: calls that give a tensor that nobody else holds
FRESH = frozenset({
    "torch.empty", "torch.zeros", "torch.ones", "torch.full", "torch.empty_like", "torch.zeros_like", "torch.ones_like", "torch.rand",
    "torch.randn",
    "torch.Tensor.new_empty", "torch.Tensor.new_zeros", "torch.Tensor.new_ones", "torch.Tensor.clone", "torch.tensor",
})  # fmt: skip

#: functions and methods whose result is new, whatever they are given
NEW = frozenset({
    "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "all", "amax", "amin", "any",
    "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm", "bilinear", "bincount", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "bmm", "bucketize", "cat", "cdist", "ceil", "celu", "clamp", "clamp_max", "clamp_min",
    "clip", "concat", "conv1d", "conv2d", "conv3d", "copysign", "corrcoef", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov",
    "cross", "cumlogsumexp", "cumprod", "cumsum", "cumulative_trapezoid", "deg2rad", "det", "diag_embed", "diff", "digamma", "div",
    "divide", "dot", "elu", "embedding", "eq", "erf", "erfc", "exp", "exp2", "expm1", "fix", "flip", "fliplr", "flipud", "float_power",
    "floor", "floor_divide", "fmod", "frac", "full_like", "gather", "ge", "gelu", "ger", "glu", "greater", "group_norm", "gt",
    "hardsigmoid", "hardswish", "hardtanh", "heaviside", "histc", "hypot", "i0", "index_add", "index_copy", "index_fill", "index_put",
    "index_select", "inner", "inverse", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "kron", "l1_loss",
    "layer_norm", "ldexp", "le", "leaky_relu", "lerp", "less", "lgamma", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp",
    "logaddexp2", "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsigmoid", "logsumexp",
    "lt", "masked_fill", "masked_scatter", "masked_select", "matmul", "maximum", "mean", "minimum", "mish", "mm", "mse_loss", "mul",
    "multiply", "mv", "nan_to_num", "nanmean", "nanquantile", "nansum", "ne", "neg", "negative", "nextafter", "norm", "normalize",
    "not_equal", "one_hot", "outer", "pad", "pairwise_distance", "polygamma", "pow", "prod", "quantile", "rad2deg", "rand_like",
    "randn_like", "reciprocal", "relu", "relu6", "remainder", "repeat", "repeat_interleave", "roll", "rot90", "round", "rsqrt", "rsub",
    "scaled_dot_product_attention", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "selu", "sgn", "sigmoid", "sign",
    "signbit", "silu", "sin", "sinc", "sinh", "smooth_l1_loss", "softmax", "softmin", "softplus", "softsign", "sqrt", "square", "stack",
    "std", "sub", "subtract", "sum", "take", "take_along_dim", "tan", "tanh", "tanhshrink", "trace", "trapezoid", "tril", "triu",
    "true_divide", "trunc", "var", "vdot", "where", "xlogy",
})  # fmt: skip

#: functions and methods whose result is new, or several new ones where they are given an axis: those have no methods that change them
NEW_ALONE = frozenset({"max", "median", "min", "mode", "nanmedian"})

#: methods that give the tensor itself where it is already as they make it, in Paddle a copy
SAME_OR_NEW = frozenset(
    {"bfloat16", "bool", "contiguous", "cpu", "cuda", "double", "float", "half", "int", "long", "to", "type", "type_as"}
)

#: functions of torch.linalg that give a view, or what they are given
_VIEWS_OF_MATRICES = frozenset({"diagonal", "multi_dot", "matrix_power"})

#: what changes no element
OF_NO_ELEMENT = frozenset({"requires_grad_"})

#: what changes how a tensor lies, and not its elements: done to a part, it leaves the whole as it is
OF_FORM = frozenset({
    "as_strided_", "detach_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
})  # fmt: skip

#: functions and methods that give one tensor, which may be a view
ONE = frozenset({
    "arange", "as_tensor", "contiguous", "expand", "eye", "flatten", "from_numpy", "linspace", "permute", "rand", "randint", "randn",
    "repeat", "reshape", "squeeze", "transpose", "unsqueeze", "view",
})  # fmt: skip

#: functions and methods that give several tensors
SEVERAL = frozenset({
    "broadcast_tensors", "chunk", "dsplit", "hsplit", "list", "meshgrid", "split", "tensor_split", "tuple", "unbind", "unsafe_chunk",
    "unsafe_split", "vsplit",
})  # fmt: skip

#: functions and methods whose several results are views of the tensor that is split
SPLIT = frozenset({"broadcast_tensors", "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind", "vsplit"})

#: functions and methods whose result is a view of the tensor
VIEWED = frozenset({
    "broadcast_to", "diagonal", "expand", "expand_as", "flatten", "movedim", "moveaxis", "narrow", "permute", "ravel", "reshape",
    "select", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unflatten", "unsqueeze", "view", "view_as",
})  # fmt: skip


#: functions and methods whose result is a copy in Paddle, whether or not a gradient is asked for
COPIED = frozenset({"broadcast_tensors", "broadcast_to", "dsplit", "expand", "expand_as", "hsplit", "tensor_split", "vsplit"})


def gives_several(node: ast.AST) -> bool:
    """Whether an expression is a call that gives several tensors, by its name."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in SEVERAL


def is_new(name: str) -> bool:
    """Whether a function of PyTorch gives a tensor that nobody else holds."""
    return is_among(name, NEW)


def is_new_alone(name: str) -> bool:
    """Whether a function gives a tensor that nobody else holds, wherever it gives one alone."""
    head, _, last = name.rpartition(".")
    return is_among(name, NEW_ALONE) or (head == "torch.linalg" and last not in _VIEWS_OF_MATRICES)


def is_among(name: str, known: frozenset[str]) -> bool:
    """Whether a function or method of PyTorch's tensors is one of those."""
    head, _, last = name.rpartition(".")
    return head in ("torch", "torch.Tensor", "torch.nn.functional") and last in known
