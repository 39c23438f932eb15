"""Projects and the sides' runs: read paralign.toml, start workers, have captures recorded and reused."""
