"""Tables of mixed columns: their roles, and the encoder that makes numbers of them and reads numbers back.

Only `array` is imported without pandas.
"""

from __future__ import annotations
