"""One page per engine: convert, call the core, convert back."""
