"""Contrastive learning with any framework and any view maker."""
