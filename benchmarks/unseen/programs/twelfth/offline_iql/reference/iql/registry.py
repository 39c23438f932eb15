class Registry(dict):
    """Builders by name: `@NETWORKS.register("twin_q")`."""

    def register(self, name):
        def keep(builder):
            assert name not in self, name
            self[name] = builder
            return builder

        return keep

    def build(self, spec, **extra):
        spec = dict(spec)
        return self[spec.pop("type")](**spec, **extra)


NETWORKS = Registry()
OPTIMIZERS = Registry()
