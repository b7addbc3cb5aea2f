"""Discovery: the parts that recur across samples, and where they are."""

from __future__ import annotations
