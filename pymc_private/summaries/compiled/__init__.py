"""Loops over many rows that numba compiles, and threads that take chunks of rows."""
