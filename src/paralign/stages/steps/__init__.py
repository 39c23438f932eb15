"""What an optimizer step does to weights, for all stages that take steps."""
