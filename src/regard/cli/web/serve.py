"""`regard serve`: runs, studies and lessons in a browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import console, side_console
from regard.core.errors import UserError

PORT = 8321
NEEDED = ("starlette", "uvicorn")


def serve(
    root: Annotated[Path, typer.Option("--in", help="Folder of the runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = PORT,
    opens_browser: Annotated[
        bool, typer.Option("--open", help="Open the address in the browser.")
    ] = False,
    expose_as: Annotated[
        str | None,
        typer.Option(
            "--expose-to-network-as",
            metavar="HOST",
            help="Let other machines connect, by this name of the machine: whoever reads the "
            "traffic or has the address can see, train and delete runs. "
            "Default: this machine alone.",
        ),
    ] = None,
) -> None:
    """Show runs, studies and lessons in a browser, live, on this machine alone.

    Prints an address that works once, for the browser that opens it; Ctrl-C ends it. The page reads
    run folders, runs lessons, saves and trains recipes, and deletes runs after confirmation; it
    writes nothing else."""
    if any(find_spec(name) is None for name in NEEDED):
        raise UserError(
            "the page needs Starlette and uvicorn",
            topic="serve",
            hint="Install them: pip install 'regard[page]'",
        )
    from regard.web.serve import serve as serve_page

    def say(address: str) -> None:
        console().print(address, markup=False, soft_wrap=True)
        if expose_as is not None:
            side_console().print(
                "Other machines can connect, and nothing is encrypted: do this in networks that "
                "you trust.",
                style="yellow",
                soft_wrap=True,
            )
        side_console().print("Open it in a browser; Ctrl-C ends the page.", style="dim")

    serve_page(root, port=port, expose_as=expose_as, opens_browser=opens_browser, say=say)
