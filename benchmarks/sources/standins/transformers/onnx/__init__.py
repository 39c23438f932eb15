"""In place of exports."""


class OnnxConfig:
    pass


class OnnxConfigWithPast(OnnxConfig):
    pass


class PatchingSpec:
    pass
