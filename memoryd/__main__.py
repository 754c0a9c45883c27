"""`python -m memoryd`."""

from memoryd.cli.main import main

if __name__ == "__main__":
    main()
