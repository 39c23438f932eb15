"""What turns one array into another: experiments that must find it, and arrays that must not be explained away."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.locate.data.array_difference import explain, laid_out, normalisation, same
from paralign.locate.data.distances import EQUAL, apart
from paralign.locate.data.interpolation import recognised, ways

RANDOM = np.random.default_rng(0)


def smooth(height=40, width=48, channels=3):
    """A picture with structure at several scales."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [np.sin(x / (5 + c)) + np.cos(y / (7 - c)) + 0.3 * RANDOM.normal(size=x.shape) for c in range(channels)]
    picture = np.stack(planes, axis=-1)
    return (picture - picture.min()) / np.ptp(picture) * 255


PICTURE = smooth()
CHW = PICTURE.transpose(2, 0, 1)
MEAN, STD = np.array([120.0, 110.0, 100.0]), np.array([58.0, 57.0, 56.0])


@pytest.mark.parametrize(
    ("candidate", "rule", "said"),
    [
        (PICTURE[:, :, ::-1], "channels", "reverse order"),
        (PICTURE[:, ::-1], "flip", "axis 1"),
        (PICTURE[::-1], "flip", "axis 0"),
        (PICTURE / 255, "scale", "division by 255"),
        (PICTURE * 2, "scale", "times 2"),
        (PICTURE + 3, "shift", "plus 3"),
        (PICTURE * 2 + 3, "affine", "times 2 plus 3"),
        (PICTURE.transpose(1, 0, 2), "axes", "transpose(1, 0, 2)"),
        ((PICTURE - MEAN) / STD, "normalise", "each channel is scaled and shifted"),
        (((PICTURE - MEAN) / STD)[:, :, ::-1], "channels", "then each is scaled"),
        (np.roll(PICTURE, (2, -3), (0, 1))[4:-4, 4:-4], "shape", "(40, 48, 3) in the reference, (32, 40, 3) in the candidate"),
    ],
)
def test_simple_differences_are_recognised(candidate, rule, said):
    found = explain(None, PICTURE, candidate)
    assert found is not None
    assert found.rule == f"data/{rule}"
    assert said in found.cause
    assert found.proven == (rule != "shape")
    assert found.fix
    if found.proven:
        assert found.error_after <= EQUAL < found.error_before


@pytest.mark.parametrize(("down", "right"), [(1, 0), (0, -2), (-5, 7)])
def test_a_crop_at_another_place_is_found(down, right):
    big = smooth(60, 64)
    found = explain(None, big[20:44, 20:44], big[20 + down : 44 + down, 20 + right : 44 + right])
    assert found.rule == "data/crop"
    assert f"starts {down} rows and {right} columns further" in found.cause


def test_what_was_left_out_is_told():
    assert explain(PICTURE, PICTURE / 255, PICTURE).rule == "data/missing"


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        (MEAN[::-1], STD[::-1], ": the mean is in the other channel order, and the deviation"),
        (MEAN[::-1], STD, ": the mean is in the other channel order"),
        (STD, MEAN, ": mean and deviation are swapped"),
        (
            MEAN,
            STD * [1, 2, 1],
            "deviation (58, 57, 56) in the reference, mean (120, 110, 100) and deviation (58, 114, 56) in the candidate",
        ),
    ],
)
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_both_normalisations_are_told(mean, std, said, layout):
    move = (2, 0, 1) if layout == "CHW" else (0, 1, 2)
    found = explain(PICTURE, ((PICTURE - MEAN) / STD).transpose(move), ((PICTURE - mean) / std).transpose(move))
    assert found.rule == "data/normalise"
    assert found.cause.endswith(said) or said in found.cause


def test_a_normalisation_is_read_from_what_it_did():
    mean, std = normalisation(PICTURE, (CHW - MEAN[:, None, None]) / STD[:, None, None])
    np.testing.assert_allclose((mean, std), (MEAN, STD), rtol=1e-6)
    assert normalisation(PICTURE, PICTURE**2) is None
    assert normalisation(PICTURE, PICTURE[:5]) is None
    assert normalisation(PICTURE[..., 0], PICTURE[..., 0] / 2 - 1) == (pytest.approx([2]), pytest.approx([2]))


def test_the_same_values_in_another_order():
    values = RANDOM.normal(size=30)
    assert explain(None, values, RANDOM.permutation(values)).rule == "data/order"


def test_a_mask_from_the_other_end_is_not_called_reversed_or_sorted():
    mask = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])
    assert explain(None, mask, mask[::-1]) is None
    assert explain(None, np.arange(9.0), np.arange(9.0)[::-1]).rule == "data/columns"


def test_a_mask_of_a_picture_that_is_flipped_is_told():
    mask = (RANDOM.random((16, 16)) > 0.5).astype(float)
    assert explain(None, mask, mask[::-1]).rule == "data/flip"
    assert explain(None, np.array([480, 640]), np.array([640, 480])).rule == "data/columns"


def test_pictures_are_not_counted_from_another_number():
    assert explain(None, np.round(PICTURE), np.round(PICTURE) - 128).fix == "add 128, or leave out what subtracts it"


def test_labels_that_differ_by_one_are_not_called_rounded():
    labels = np.array([0, 1, 2, 0, 1, 2, 3, 5])
    assert explain(None, labels, labels + np.array([0, 0, 1, 0, 1, 0, 0, 1])) is None


def test_numbers_of_classes_that_are_one_off_are_counted_from_another_number():
    found = explain(None, np.arange(20), np.arange(20) - 1)
    assert (found.rule, found.fix) == ("data/shift", "count from the same number on both sides")
    assert explain(None, np.arange(20) / 7, np.arange(20) / 7 - 1).fix == "add 1, or leave out what subtracts it"


@pytest.mark.parametrize(("ddof", "first", "second"), [(1, "n - 1", "n"), (0, "n", "n - 1")])
def test_a_factor_near_one_is_told_as_that_of_two_deviations(ddof, first, second):
    rows = RANDOM.normal(size=200)
    found = explain(None, rows / rows.std(ddof=1 - ddof), rows / rows.std(ddof=ddof))
    assert f"that of 200 rows gives this factor, over {first} in the candidate and over {second} in the reference" in found.fix


def test_one_grey_level_is_suspected_to_be_rounding():
    candidate = np.floor(PICTURE)
    found = explain(None, np.round(PICTURE), candidate)
    assert (found.rule, found.proven, found.error_after) == ("data/rounding", False, None)


@pytest.mark.parametrize(
    "hostile", [RANDOM.normal(size=PICTURE.shape), PICTURE**2, np.full(PICTURE.shape, np.nan), np.zeros(PICTURE.shape)]
)
def test_other_values_are_not_explained(hostile):
    assert explain(None, PICTURE, hostile) is None


@pytest.mark.parametrize("value", [np.zeros((0, 3)), np.float64(3.0), np.array([1.0]), np.array([np.inf, 1.0])])
def test_degenerate_values_are_not_explained(value):
    assert explain(None, value, value) is None
    assert explain(value, value, np.asarray(value) * 2) is None


# -- equality ----------------------------------------------------------------------------------------------------------------------


def test_a_layout_is_the_same_picture_and_a_transposed_one_is_not():
    square = smooth(24, 24)
    assert same(square, square.transpose(2, 0, 1))
    assert same(square.transpose(2, 0, 1), square[None])
    assert same(square.transpose(2, 0, 1)[None], square[None])
    assert not same(square, square.transpose(1, 0, 2))
    assert not same(square, square.transpose(2, 1, 0))
    assert not same(square[..., 0], square[..., 0].T)
    assert not same(square, square[:, :, ::-1])
    assert not same(square, square[:-1])
    assert laid_out(square, square[:-1]) is None


def test_nan_equals_only_nan_at_its_place():
    one = np.array([np.nan, 1.0])
    assert apart(one, one) == 0
    assert apart(one, one[::-1]) == np.inf


# -- interpolation -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(17, 21), (20, 24), (90, 70)])
def test_every_way_to_resize_is_recognised_among_the_others(shape):
    made = dict(ways(PICTURE, (0, 1), shape))
    assert len(made) > 8
    for name, result in made.items():
        found = recognised(PICTURE, np.clip(result, 0, 255), (0, 1), 1.0)
        assert found is not None
        np.testing.assert_allclose(made[found], result, atol=1e-6, err_msg=f"{name} taken for {found}")


def test_no_way_gives_another_picture():
    assert recognised(PICTURE, smooth(20, 24), (0, 1), 1.0) is None


@pytest.mark.parametrize("move", [(0, 1, 2), (2, 0, 1)])
def test_two_interpolations_are_named(move):
    made = dict(ways(PICTURE, (0, 1), (20, 24)))
    first, second = "bilinear, with antialiasing", "bilinear, without antialiasing"
    found = explain(PICTURE, made[first].transpose(move), made[second].transpose(move))
    assert (found.rule, found.proven) == ("data/interpolation", True)
    assert found.cause == f"resized by {first} in the reference, by {second} in the candidate"


@pytest.mark.parametrize(
    ("name", "filter_"),
    [
        ("bilinear, with antialiasing", "BILINEAR"),
        ("bicubic (a = -0.5), with antialiasing", "BICUBIC"),
        ("box", "BOX"),
        ("Lanczos", "LANCZOS"),
    ],
)
def test_what_pil_does_is_recognised(name, filter_):
    image = pytest.importorskip("PIL.Image")
    picture = np.round(PICTURE).astype(np.uint8)
    result = np.asarray(image.fromarray(picture).resize((20, 17), getattr(image, filter_)))
    assert recognised(picture.astype(float), result.astype(float), (0, 1), 2.0) == name


@pytest.mark.parametrize("flipped", [False, True])
def test_views_of_one_picture_that_are_turned_the_other_way_are_not_to_be_sorted(flipped):
    picture = np.random.RandomState(3).rand(9, 9)
    views = [np.rot90(np.flip(picture, 1) if flipped and k == 2 else picture, k) for k in range(4)]
    found = explain(None, np.stack(views)[:, None], np.stack([views[k] for k in (0, 3, 2, 1)])[:, None])
    assert found.rule == "data/order"
    assert "views of one picture" in found.cause
    assert "sort" not in found.fix


def test_samples_in_another_order_are_to_be_sorted():
    samples = np.random.RandomState(3).rand(4, 1, 9, 9)
    found = explain(None, samples, samples[[0, 3, 2, 1]])
    assert found.cause == "the same rows in another order, along axis 0: the candidate's are the reference's (0, 3, 2, 1)"
    assert found.fix.startswith("bring the rows into the reference's order: sort by the same rule")
    views = np.stack([np.rot90(samples[0, 0], k) for k in range(4)])
    views[2] += 0.1  # one row is another picture
    assert "views" not in explain(None, views, views[[0, 3, 2, 1]]).cause
    many = np.random.RandomState(3).rand(20, 5)
    assert explain(None, many, many[np.random.RandomState(1).permutation(20)]).cause == "the same rows in another order, along axis 0"
