"""Small made worlds, one a domain: they prove that the abstractions fit."""
