"""`python -m regard` is the `regard` command."""

from regard.cli.app import main

main()
