"""Measurements of viewsmith: speed, quality, and the tables of the documentation. Run from the folder above."""
