"""What several stages do alike: places, judging, precision, values that are not finite."""
