"""Language models: transformers against paddlenlp."""

from __future__ import annotations

from zoo_inputs import images, operators, tokens


def hf(ours, theirs, config, port=None, inputs=None, **renamed):
    """A model of transformers against one of paddlenlp, both from small configurations."""

    def build():
        operators()
        import paddlenlp.transformers as candidates
        import transformers as references

        own = dict(config)
        other = {**config, **(port or {})}
        for old, new in renamed.items():
            other[new] = other.pop(old)
        model = getattr(references, ours + "Model")(getattr(references, ours + "Config")(**own))
        model.config.use_cache = False
        copy = getattr(candidates, theirs + "Model")(getattr(candidates, theirs + "Config")(**other))
        copy.config.use_cache = False
        return model, copy, inputs if inputs is not None else (tokens(),)

    return build


def clip():
    operators()
    import paddlenlp.transformers as candidates
    import transformers as references

    config = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    model = references.CLIPVisionModel(references.CLIPVisionConfig(**config))
    return model, candidates.CLIPVisionModel(candidates.CLIPVisionConfig(**config)), images(32)


SMALL = {
    "vocab_size": 99,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LLAMA = {"vocab_size": 99, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
T5 = {"vocab_size": 99, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
GPT = {
    "vocab_size": 99,
    "n_embd": 128,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "n_inner": 256,
}
GPT_PORT = {
    "vocab_size": 99,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "hidden_activation": "gelu",
}
ALBERT = {**SMALL, "embedding_size": 64, "num_hidden_groups": 1, "inner_group_num": 1}
DISTIL = {"vocab_size": 99, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256, "dropout": 0.0, "attention_dropout": 0.0}
BLOOM = {"vocab_size": 99, "hidden_size": 128, "n_layer": 3, "n_head": 4, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def padded():
    """Sentences of which the last six tokens are padding (0)."""
    ids = tokens()
    ids[:, 18:] = 0
    return ids


def nth_linear(model, port):
    """Rules that lead the n-th Linear to the n-th Linear, in order of definition: shapes fit, roles do not."""
    import paddle
    import torch

    from paralign.weights import Rename, Rules

    ours = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    theirs = [name for name, layer in port.named_sublayers() if isinstance(layer, paddle.nn.Linear)]
    return Rules(tuple(Rename(one, other) for one, other in zip(ours, theirs, strict=True)))


def pairs():
    return _bert() + _decoders() + _others()


def _bert():
    masked = {"input_ids": padded(), "attention_mask": (padded() != 0).astype("int64")}
    masked_name = "HF.BertModel +pad ids [attention_mask=ids!=0]"
    return [
        ("HF.BertModel", "paddlenlp.BertModel", hf("Bert", "Bert", SMALL)),
        ("HF.BertModel square", "paddlenlp.BertModel", hf("Bert", "Bert", {**SMALL, "intermediate_size": 128})),
        ("HF.BertModel +pad ids", "paddlenlp.BertModel", hf("Bert", "Bert", SMALL, inputs=(padded(),))),
        (masked_name, "paddlenlp.BertModel", hf("Bert", "Bert", SMALL, inputs=masked)),
        ("HF.ElectraModel", "paddlenlp.ElectraModel", hf("Electra", "Electra", {**SMALL, "embedding_size": 128})),
        ("HF.AlbertModel", "paddlenlp.AlbertModel", hf("Albert", "Albert", ALBERT)),
        ("HF.AlbertModel [gelu mended]", "paddlenlp.AlbertModel", hf("Albert", "Albert", {**ALBERT, "hidden_act": "gelu"})),
        ("HF.LayoutLMModel", "paddlenlp.LayoutLMModel", hf("LayoutLM", "LayoutLM", SMALL)),
        ("HF.MegatronBertModel", "paddlenlp.MegatronBertModel", hf("MegatronBert", "MegatronBert", SMALL)),
        ("HF.ErnieModel", "paddlenlp.ErnieModel", hf("Ernie", "Ernie", {**SMALL, "use_task_id": False})),
        ("HF.RobertaModel", "paddlenlp.RobertaModel", hf("Roberta", "Roberta", SMALL, inputs=(tokens(least=2),))),
        (
            "HF.RobertaModel [pad_token_id=1]",
            "paddlenlp.RobertaModel",
            hf("Roberta", "Roberta", {**SMALL, "pad_token_id": 1}, inputs=(tokens(least=2),)),
        ),
        ("HF.DistilBertModel", "paddlenlp.DistilBertModel", hf("DistilBert", "DistilBert", DISTIL, SMALL)),
    ]


def _decoders():
    llama = {**LLAMA, "num_key_value_heads": 2}
    return [
        ("HF.GPT2Model", "paddlenlp.GPTModel", hf("GPT2", "GPT", GPT, GPT_PORT)),
        ("HF.LlamaModel", "paddlenlp.LlamaModel", hf("Llama", "Llama", LLAMA)),
        ("HF.LlamaModel GQA", "paddlenlp.LlamaModel", hf("Llama", "Llama", llama)),
        (
            "HF.LlamaModel, fused port",
            "paddlenlp.LlamaModel(fuse_attention_qkv, fuse_attention_ffn)",
            hf("Llama", "Llama", LLAMA, {"fuse_attention_qkv": True, "fuse_attention_ffn": True}),
        ),
        (
            "HF.LlamaModel GQA, fused port",
            "paddlenlp.LlamaModel(fuse_attention_qkv)",
            hf("Llama", "Llama", llama, {"fuse_attention_qkv": True}),
        ),
        ("HF.BloomModel", "paddlenlp.BloomModel", hf("Bloom", "Bloom", BLOOM)),
    ]


def _others():
    both = {"input_ids": tokens(24), "decoder_input_ids": tokens(10)}
    return [
        ("HF.T5Model", "paddlenlp.T5Model", hf("T5", "T5", T5, inputs=both)),
        ("HF.T5Model gated-gelu", "paddlenlp.T5Model", hf("T5", "T5", {**T5, "feed_forward_proj": "gated-gelu"}, inputs=both)),
        ("HF.CLIPVisionModel", "paddlenlp.CLIPVisionModel", clip),
        ("HF.CLIPVisionModel [n-th Linear->n-th Linear]", "paddlenlp.CLIPVisionModel", clip, nth_linear),
    ]
