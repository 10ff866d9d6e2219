"""Certificates: proved bounds on how much one record can change a log-likelihood."""
