"""What a check left in its output folder, looked at once more without running anything."""
