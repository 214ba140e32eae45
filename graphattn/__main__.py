"""``python -m graphattn``: the command line."""

from graphattn.experiments._cli.entry import main

if __name__ == "__main__":
    main()
