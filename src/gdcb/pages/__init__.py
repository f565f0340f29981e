"""What every page is made of: numbers as people read them, marks of figures, layout, style."""
