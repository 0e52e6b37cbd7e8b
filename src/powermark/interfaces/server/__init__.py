"""The page and the REST interface: they translate, and compute nothing of their own."""
