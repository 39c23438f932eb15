"""The steps that fit a kind of value, the likelier ones more than once; and those that lead from it towards rows."""

from __future__ import annotations

from composed_pictures import (
    adaptive_pool,
    average_pool,
    batch_norm,
    channel_norm,
    channel_prelu,
    conv,
    flatten,
    grid_sample,
    group_norm,
    instance_norm,
    interpolate,
    max_pool,
    pad,
    patches,
    picture_pool,
    pixel_shuffle,
    pixel_unshuffle,
    pixels,
    response_norm,
    roll,
    same_conv,
    shuffle_channels,
    spatial_softmax,
    split_channels,
    squeeze_excite,
    transposed_conv,
    upsample,
)
from composed_rows import activation, bilinear, formula, matrix, normalised, products, row_norm, scaled, softmax, tied
from composed_sequences import (
    attention,
    attention_layer,
    attentive_pool,
    centred,
    chosen_steps,
    cumulative,
    dynamic_pool,
    encoder_layer,
    feed_forward,
    flat_steps,
    flipped,
    gated_unit,
    gathered,
    layer_norm,
    linear,
    mixing,
    positions,
    recurrent,
    recurrent_loop,
    repeated,
    sines,
    sorted_steps,
    squared_norm,
    strided,
    time_conv,
)

ANY = [activation, activation, formula, scaled]
STEPS = {
    "image": [
        *ANY, conv, conv, conv, same_conv, transposed_conv, batch_norm, batch_norm, group_norm, instance_norm, channel_norm, response_norm,
        channel_prelu, max_pool, average_pool, adaptive_pool, interpolate, interpolate, upsample, pad, squeeze_excite, split_channels,
        shuffle_channels, pixel_shuffle, pixel_unshuffle, roll, spatial_softmax, grid_sample,
    ],
    "seq": [
        *ANY, linear, linear, layer_norm, layer_norm, attention, attention, attention_layer, encoder_layer, recurrent, recurrent,
        recurrent_loop, time_conv, positions, sines, mixing, feed_forward, gated_unit,
        cumulative, chosen_steps, gathered, strided, repeated, flipped,
        sorted_steps, squared_norm, centred, normalised, softmax,
    ],
    "rows": [
        *ANY, linear, linear, row_norm, layer_norm, products, bilinear, tied, matrix, feed_forward, gated_unit, squared_norm, softmax,
        normalised,
    ],
}  # fmt: skip
#: what brings a value to rows, a step at a time
DOWN = {"image": [pixels, patches, picture_pool, picture_pool, flatten], "seq": [dynamic_pool, dynamic_pool, attentive_pool, flat_steps]}
