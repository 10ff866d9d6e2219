"""Bambi models: design matrices written out again from the variables of a formula."""
