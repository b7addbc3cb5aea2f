"""Readers of file formats: each returns rows, labels and names as `viewsmith.data.reading.FileContents`."""
