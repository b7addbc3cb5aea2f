"""viewsmith.methods.diffaug."""
