"""One file per figure or table: its data first, then its drawing."""
