"""``python -m powermark`` is the command ``powermark``."""

from powermark.interfaces.cli import main

if __name__ == "__main__":
    main()
