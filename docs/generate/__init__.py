"""Pages that are made from the registered parts when the site is built."""
