"""The stage ``infer``: prediction programs and exported programs."""
