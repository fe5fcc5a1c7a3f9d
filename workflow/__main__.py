"""``python -m workflow`` is the ``fedhpc`` command."""

from workflow.cli import main

if __name__ == "__main__":
    main()
