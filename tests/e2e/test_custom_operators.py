"""A custom operator of Paddle's, compiled here, beside the formula that it stands for: aligned, and the mistakes in it found."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.slow]

SOURCE = r"""
#include <cmath>
#include "paddle/extension.h"

template <typename T>
std::vector<paddle::Tensor> forward(const paddle::Tensor& x, double slope) {
  auto y = paddle::empty_like(x);
  const T* from = x.data<T>();
  T* to = y.data<T>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] / (T(1) + std::exp(-static_cast<T>(slope) * from[i]));
  return {y};
}

template <typename T>
std::vector<paddle::Tensor> backward(const paddle::Tensor& x, const paddle::Tensor& above, double slope, bool right) {
  auto made = paddle::empty_like(x);
  const T* from = x.data<T>();
  const T* grad = above.data<T>();
  T* to = made.data<T>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    T k = static_cast<T>(slope), s = T(1) / (T(1) + std::exp(-k * from[i]));
    to[i] = grad[i] * (s + (right ? k : T(1)) * from[i] * s * (T(1) - s));
  }
  return {made};
}

std::vector<paddle::Tensor> Forward(const paddle::Tensor& x, double slope, bool right) {
  return x.dtype() == paddle::DataType::FLOAT64 ? forward<double>(x, slope) : forward<float>(x, slope);
}

std::vector<paddle::Tensor> Backward(const paddle::Tensor& x, const paddle::Tensor& above, double slope, bool right) {
  return x.dtype() == paddle::DataType::FLOAT64 ? backward<double>(x, above, slope, right) : backward<float>(x, above, slope, right);
}

PD_BUILD_OP(quick_gelu).Inputs({"X"}).Outputs({"Out"}).Attrs({"slope: double", "right: bool"}).SetKernelFn(PD_KERNEL(Forward));
PD_BUILD_GRAD_OP(quick_gelu).Inputs({"X", paddle::Grad("Out")}).Outputs({paddle::Grad("X")}).Attrs({"slope: double", "right: bool"})
    .SetKernelFn(PD_KERNEL(Backward));
"""


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    """The compiled operator: x / (1 + exp(-slope x)), its gradient right or not."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler: custom operators are not tried")
    folder = tmp_path_factory.mktemp("operator")
    source = folder / "quick_gelu.cc"
    source.write_text(SOURCE)
    from paddle.utils import cpp_extension

    return cpp_extension.load(name="paralign_quick_gelu", sources=[str(source)], extra_cxx_cflags=["-O0"], build_directory=str(folder))


class Formula(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x)
        return self.last(x * torch.sigmoid(1.702 * x))


def port(operator, slope=1.702, right=True):
    class Operator(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.last = paddle.nn.Linear(6, 8), paddle.nn.Linear(8, 3)

        def forward(self, x):
            x = self.first(x)
            x = operator.quick_gelu(x, slope, right)  # the operator
            return self.last(x)

    return Operator


def checked(candidate):
    random = np.random.default_rng(0)
    losses = SimpleNamespace(torch=torch.nn.functional.mse_loss, paddle=paddle.nn.functional.mse_loss)
    return check(
        Side(framework="torch", functions={"build_model": Formula, "loss": losses.torch}),
        Side(framework="paddle", functions={"build_model": candidate, "loss": losses.paddle}),
        inputs=random.standard_normal((4, 6)).astype("float32"),
        labels=random.standard_normal((4, 3)).astype("float32"),
        stages=["weights", "forward", "backward"],
    )


def test_a_right_operator_is_aligned_forward_and_backward(operator):
    result = checked(port(operator))
    assert [result[name].verdict for name in ("weights", "forward", "backward")] == [ALIGNED] * 3


def test_a_wrong_constant_is_found_at_the_line_that_calls_the_operator(operator):
    result = checked(port(operator, slope=1.7))
    assert result["forward"].verdict == DIVERGED
    source, _, number = result["forward"].divergence.candidate.source.rpartition(":")
    assert Path(source) == Path(__file__)
    assert "# the operator" in Path(source).read_text().splitlines()[int(number) - 1]


def test_a_wrong_gradient_is_found_where_the_forward_pass_agrees(operator):
    result = checked(port(operator, right=False))
    assert (result["forward"].verdict, result["backward"].verdict) == (ALIGNED, DIVERGED)
