"""Language models of transformers 5 against paddleformers, which live in a folder of their own beside the zoo's environment.

Both need other versions of their dependencies than paddlenlp does: ``zoo.py`` puts that folder first on the path for these pairs.
"""

from __future__ import annotations

from zoo_inputs import operators, tokens

SMALL = {
    "vocab_size": 99,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
}


def former(kind, **options):
    def build():
        operators()
        import transformers

        config = {**SMALL, **options}
        model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**config, use_cache=False))
        import paddleformers.transformers as candidates  # after transformers: it hides PyTorch from what is imported later

        port = getattr(candidates, f"{kind}Model")(getattr(candidates, f"{kind}Config")(**config, use_cache=False, fuse_rms_norm=False))
        return model, port, (tokens(),)

    return build


def pairs():
    return [
        ("HF5.3.0.LlamaModel", "paddleformers.LlamaModel", former("Llama")),
        ("HF5.3.0.LlamaModel GQA", "paddleformers.LlamaModel", former("Llama", num_key_value_heads=2)),
    ]
