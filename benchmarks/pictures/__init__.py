"""One short script per picture of docs/pictures.md, each a function `draw` without arguments.

``python -m benchmarks.pictures [NAME ...]`` draws them into docs/images/pictures.
"""
