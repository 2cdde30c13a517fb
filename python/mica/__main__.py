"""python -m mica: runs the command `mica` of the package."""
import os
import sys

from .config import command


def main() -> None:
    os.execv(command(), [command(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
