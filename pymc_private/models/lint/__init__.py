"""What looks computed from the private data: warnings for the curator."""
