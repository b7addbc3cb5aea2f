"""viewsmith.methods.metaug."""
