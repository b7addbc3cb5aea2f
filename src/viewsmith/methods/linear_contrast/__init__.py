"""Contrastive learning in closed form: the linear map of fixed features that solves InfoNCE for Gaussian views."""
