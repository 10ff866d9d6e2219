"""Releases: private draws with their guarantee, and what may be computed from them at no cost.

A release is made by `charge.publish` (charge the ledger, then draw) from a job that the rooms
`posterior`, `counts` and `mollifiers` describe. Everything else here is post-processing:
estimates with error bounds, answers (T16), predictions at public covariates, plots, files and
citations.

Imports: privacy, ledger, errors; of models only `compat`, and what `predict` needs.
"""
