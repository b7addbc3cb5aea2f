"""python -m viewsmith."""

from __future__ import annotations

from viewsmith.cli import main

main()
