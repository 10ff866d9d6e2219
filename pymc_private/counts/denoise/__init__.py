"""What noisy counts tell of the true ones."""
