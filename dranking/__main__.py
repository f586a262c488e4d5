"""`python -m dranking` is the command line."""

from dranking.cli import main

if __name__ == "__main__":
    main()
