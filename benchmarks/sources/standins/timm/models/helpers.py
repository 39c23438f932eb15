"""In place of downloads and configurations: a model is built, and a function applied to its layers by name."""


def build_model_with_cfg(model_cls, variant, pretrained, default_cfg=None, **kwargs):
    kwargs.pop("pretrained_filter_fn", None)
    kwargs.pop("feature_cfg", None)
    return model_cls(**kwargs)


def named_apply(fn, module, name="", depth_first=True, include_root=False):
    for child_name, child in module.named_children():
        path = ".".join((name, child_name)) if name else child_name
        named_apply(fn, child, path, depth_first, True)
    if include_root:
        fn(module=module, name=name)
    return module
