"""The stage ``loss``: its value, and its gradients where asked for."""
