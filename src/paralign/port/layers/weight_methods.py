"""What is read of a weight, by what it does to the places of elements."""

from __future__ import annotations

#: attributes of a tensor that are no attribute of the program's own
OWN_ATTRIBUTES = frozenset({"T", "data", "device", "dtype", "grad", "is_cuda", "is_leaf", "mT", "ndim", "requires_grad", "shape"})

#: methods and attributes of a weight whose results lie as it does
ASKED = frozenset({
    "T", "abs", "add", "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "astype", "clamp", "clone", "contiguous",
    "copy", "cos", "count_nonzero", "cpu", "cumsum", "data", "detach", "diag", "diagonal", "div", "double", "eq", "exp", "expand",
    "flatten", "float", "ge", "gt", "half", "isfinite", "isinf", "isnan", "item", "kthvalue", "le", "log", "lt", "mT", "matmul",
    "max", "mean", "median", "min", "mm", "mul", "ne", "neg", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros",
    "norm", "numpy", "permute", "pow", "prod", "quantile", "ravel", "reciprocal", "relu", "reshape", "round", "rsqrt", "shape",
    "sigmoid", "sign", "sin", "size", "softmax", "sort", "sqrt", "square", "squeeze", "std", "stride", "sub", "sum", "t", "tanh",
    "to", "tolist", "topk", "transpose", "tril", "triu", "type", "unsqueeze", "var", "view",
})  # fmt: skip

#: methods that give each element alone, whatever its place
OF_EACH_ELEMENT = frozenset({
    "abs", "clone", "contiguous", "cpu", "data", "detach", "double", "exp", "float", "half", "isfinite", "isinf", "isnan", "log",
    "neg", "pow", "relu", "round", "sigmoid", "sign", "sqrt", "square", "tanh", "to",
})  # fmt: skip

#: methods that give all elements in a row, where they are told so
ROWS = frozenset({"flatten", "ravel", "reshape", "view"})

#: methods that make one number of all elements, in whatever order they come
REDUCED = frozenset({"all", "amax", "amin", "any", "count_nonzero", "max", "mean", "median", "min", "norm", "prod", "std", "sum", "var"})

#: functions that show what they are given, and put nothing together
SHOWN = frozenset({"isinstance", "len", "print", "str", "type"})
