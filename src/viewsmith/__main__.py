"""python -m viewsmith."""

from viewsmith.cli import main

main()
