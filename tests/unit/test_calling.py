"""What a model is called with: keywords, positions, or a whole batch."""

from __future__ import annotations

import pytest

from paralign.worker.sides.calling import call_model


class Apart:
    def forward(self, x, scale=1):
        return x * scale

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


class Whole(Apart):
    def forward(self, batch, training=False):
        assert not training
        return sum(batch.values()) if isinstance(batch, dict) else sum(batch)


class Anything(Apart):
    def forward(self, *args, **kwargs):
        return args, kwargs


def test_a_dict_is_handed_over_by_keyword():
    assert call_model(Apart(), {"x": 3, "scale": 2}) == 6


def test_a_tuple_is_handed_over_by_position():
    assert call_model(Apart(), (3, 2)) == 6
    assert call_model(Apart(), [3]) == 3


def test_a_model_of_one_argument_gets_the_whole_dict():
    assert call_model(Whole(), {"a": 3, "b": 4}) == 7


def test_a_model_of_one_argument_gets_the_whole_tuple_that_does_not_fit_apart():
    assert call_model(Whole(), (1, 2, 3)) == 6


def test_names_of_parameters_decide_for_keywords():
    assert call_model(lambda batch: batch, {"batch": 5}) == 5


def test_a_model_that_takes_anything_gets_it_apart():
    assert call_model(Anything(), {"a": 1}) == ((), {"a": 1})
    assert call_model(Anything(), (1, 2)) == ((1, 2), {})


def test_a_function_is_a_model_too():
    assert call_model(lambda batch: batch["a"], {"a": 1, "b": 2}) == 1


def test_a_model_without_a_signature_is_called_as_documented():
    assert call_model(dict, {"a": 1}) == {"a": 1}
    assert call_model(max, (1, 2)) == 2


def test_inputs_that_fit_in_no_way_fail_as_the_call_does():
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        call_model(lambda x, y: x + y, {"a": 1})


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_keywords_that_a_hook_of_the_models_makes_arguments_of_stay_keywords(framework):
    library = pytest.importorskip(framework)
    base = library.nn.Module if framework == "torch" else library.nn.Layer

    class Model(base):
        def forward(self, whole):
            return whole

    model = Model()
    model.register_forward_pre_hook(lambda _, args, kwargs: ((*args, kwargs["x"]), {}), with_kwargs=True)
    assert call_model(model, {"x": library.ones([1])}).item() == 1
