"""In place of downloads."""


def load_state_dict_from_url(*args, **kwargs):
    raise RuntimeError("no downloads here")
