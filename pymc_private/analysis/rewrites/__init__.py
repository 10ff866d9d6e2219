"""Rewrites of graphs into equal graphs that interval arithmetic bounds more tightly.

Every rewrite keeps the function in real arithmetic, on all inputs or on a stated box.
"""
