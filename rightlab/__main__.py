"""``python -m rightlab`` is the ``rightlab`` command."""

from rightlab.cli import main

if __name__ == "__main__":
    main()
