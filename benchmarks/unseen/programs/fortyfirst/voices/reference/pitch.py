"""Names of notes and the numbers behind them."""
import re

STEPS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
NAME = re.compile(r"^([A-G])([#b]*)(-?\d+)$")


def midi(name):
    step, signs, octave = NAME.match(name).groups()
    shift = signs.count("#") - signs.count("b")
    return 12 * (int(octave) + 1) + STEPS[step] + shift


def split_pitch(number):
    """class and octave"""
    return number % 12, number // 12 - 1
