"""In place of what transformers downloads, documents and logs with."""

import logging as _logging
from collections import OrderedDict


class ModelOutput(OrderedDict):
    pass


class logging:
    @staticmethod
    def get_logger(name):
        return _logging.getLogger(name)


def _same(*args, **kwargs):
    return lambda function: function


add_code_sample_docstrings = add_start_docstrings = add_start_docstrings_to_model_forward = replace_return_docstrings = _same
