"""`python -m workers ROLE`, or any other command of `foldline`."""

from workers.cli import main

if __name__ == "__main__":
    main()
