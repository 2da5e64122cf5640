"""JSON Schema of recipes and studies, made from settings' fields and the strings under them.

A field that selects a part is the part's name or a table with that name and the part's settings.
TOML has no null, so a setting that may be None is one that may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.core.settings import (
    CatalogField,
    Settings,
    all_settings,
    catalog_field,
    nested_settings,
    settings_class,
    to_table,
)
from regard.runs.recipe import Recipe

DIALECT = "http://json-schema.org/draft-07/schema#"
"What editors of TOML read."
SCHEMA_FOLDER = ".regard"
Schema = dict[str, Any]


def recipe_schema() -> Schema:
    """Of a recipe; parts in the user's own files too, once they are loaded."""
    return _document("regard recipe", Recipe)


def study_schema() -> Schema:
    from regard.studies.study import Study

    return _document("regard study", Study)


SCHEMAS: dict[str, Callable[[], Schema]] = {"recipe": recipe_schema, "study": study_schema}


def write_schema(of: str, *, beside: Path) -> str:
    """Write a schema into the folder of a TOML file; returns the line by which editors that know
    taplo find it, the first of the file."""
    file = Path(SCHEMA_FOLDER) / f"{of}.schema.json"
    try:
        (beside.parent / SCHEMA_FOLDER).mkdir(exist_ok=True)
    except OSError as problem:
        what = f"{beside.parent} cannot be written to ({problem.strerror})"
        raise UserError(what, topic="disk", hint="Give another folder.") from None
    write_text(beside.parent / file, json.dumps(SCHEMAS[of](), indent=1, ensure_ascii=False))
    return f"#:schema ./{file.as_posix()}"


def _document(title: str, cls: type[Settings]) -> Schema:
    definitions: Schema = {}
    schema = {"$schema": DIALECT, "title": title, **_table_schema(cls, definitions)}
    # References name the root of the document, wherever they stand.
    used = {name: one for name, one in definitions.items() if f"#/$defs/{name}'" in str(schema)}
    return schema | ({"$defs": used} if used else {})


def _table_schema(cls: type[Settings], definitions: Schema) -> Schema:
    plain = cls.model_json_schema()
    definitions |= plain.get("$defs", {})
    docs = {setting.key: setting.doc for setting in all_settings(cls)}
    properties: dict[str, Schema] = {}
    for name, field in cls.model_fields.items():
        choice, section = catalog_field(field), nested_settings(field)
        if choice is not None:
            schema = _part_schema(choice, definitions)
        elif section is not None:
            schema = _table_schema(section, definitions)
        else:
            schema = _without_null(plain["properties"][name])
        default = field.default
        if isinstance(default, Settings):
            schema.pop("default", None)
            if choice is not None:
                schema["default"] = to_table(default)
        properties[name] = {**schema, "description": docs[name]}
    required = [name for name, field in cls.model_fields.items() if field.is_required()]
    # A file's name follows from the file.
    required = [name for name in required if name != "name"]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _part_schema(choice: CatalogField, definitions: Schema) -> Schema:
    """A name, or a table with the name and the settings of the part."""
    tables = []
    for entry in choice.catalog:
        table = _table_schema(settings_class(choice.catalog, entry.name), definitions)
        selector = {"const": entry.name, "description": entry.summary}
        table["properties"] = {choice.selector: selector, **table["properties"]}
        tables.append({"title": entry.name, **table})
    names = {"type": "string", "enum": choice.catalog.names()}
    return {"anyOf": [names, *tables]}


def _without_null(schema: Schema) -> Schema:
    """The schema of a field, where it is given."""
    kept = {key: value for key, value in schema.items() if key != "title"}
    if kept.get("default", "") is None:
        del kept["default"]
    options = [one for one in kept.pop("anyOf", []) if one != {"type": "null"}]
    if len(options) == 1:
        return {**options[0], **kept}
    return {**kept, "anyOf": options} if options else kept
