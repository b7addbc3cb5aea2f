"""viewsmith.methods.contrastive."""
