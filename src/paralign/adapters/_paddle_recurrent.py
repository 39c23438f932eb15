"""Recurrent layers of Paddle in single steps: every operation and draw is seen."""

from __future__ import annotations

from typing import Any, Callable

import paddle
from paddle.nn.layer.rnn import concat_states, split_states


def in_steps(layer: Any) -> Callable[..., Any]:
    """What takes the place of a layer's kernel: its cells, one after the other.

    Dropout is between them.

    The numbers of a dropout lie time first, as they do inside the kernel and in PyTorch. Paddle's own path without the kernel does
    not take the states that it makes for layers with one state.
    """
    both, components = layer.num_directions == 2, layer.state_components  # noqa: PLR2004 - forward and backward

    def run(inputs: Any, initial_states: Any, sequence_length: Any) -> Any:
        single = components == 1 and isinstance(initial_states, (list, tuple))
        states = split_states(initial_states[0] if single else initial_states, both, components)
        final = []
        for number, cells in enumerate(layer):
            given = _dropped(layer, inputs) if number else inputs
            inputs, state = cells(given, states[number], sequence_length)
            inputs = inputs if sequence_length is None else _ended(layer, inputs, sequence_length)
            final.append(state)
        return inputs, concat_states(final, both, components)

    return run


def _ended(layer: Any, outputs: Any, lengths: Any) -> Any:
    """The outputs with zeros behind the end of each sequence, as the kernel has them.

    Cells go on there.
    """
    count = outputs.shape[0 if layer.time_major else 1]
    inside = paddle.nn.functional.sequence_mask(lengths, maxlen=count, dtype=outputs.dtype)
    return outputs * (inside.transpose([1, 0]) if layer.time_major else inside).unsqueeze(-1)


def _dropped(layer: Any, inputs: Any) -> Any:
    if layer.time_major:
        return paddle.nn.functional.dropout(inputs, layer.dropout, training=layer.training)
    turned = paddle.nn.functional.dropout(inputs.transpose([1, 0, 2]), layer.dropout, training=layer.training)
    return turned.transpose([1, 0, 2])
