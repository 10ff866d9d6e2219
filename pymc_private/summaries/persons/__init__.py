"""Noisy scores of persons with several rows, an effect of each person integrated out."""
