"""What people and programs talk to; nothing imports from here."""
