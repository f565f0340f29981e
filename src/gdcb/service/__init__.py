"""The decision service: decisions over HTTP, the pages of those who approve and operate."""
