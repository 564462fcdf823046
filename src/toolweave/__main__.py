"""Run the command line as `python -m toolweave`."""

from toolweave.cli.main import main

if __name__ == "__main__":
    main()
