"""viewsmith.modalities.series."""
