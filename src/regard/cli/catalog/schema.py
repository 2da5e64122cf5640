"""`regard schema`: the JSON Schema of recipes or studies, for editors that check TOML."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from regard.cli.console import UserFiles, print_json


class SettingsFile(StrEnum):
    RECIPE = "recipe"
    STUDY = "study"


def schema(
    of: Annotated[
        SettingsFile, typer.Argument(metavar="recipe|study", help="What the schema describes.")
    ] = SettingsFile.RECIPE,
    user_files: UserFiles = None,
) -> None:
    """Print the JSON Schema of recipes or studies, for editors.

    A TOML file whose first line is `#:schema FILE` is checked and completed by editors that know
    taplo; `regard schema > recipe.schema.json` writes such a file."""
    from regard import api
    from regard.api.settings_schema import SCHEMAS

    api.load_parts(user_files or ())
    print_json(SCHEMAS[of]())
