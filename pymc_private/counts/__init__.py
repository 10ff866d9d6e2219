"""Tables of counts: what one record is in them, noise on them, and what noisy ones tell.

Imports: privacy, samplers.
"""


