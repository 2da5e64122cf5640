"""What a worker computes for the attention workbench: weights, reach, audit, pictures, numbers.

Arrays travel as base64 of little-endian bytes: a browser reads them without parsing a number.
Shapes: h heads, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.masks.expression import parse_mask
from regard.attention.masks.mask import Mask
from regard.attention.masks.painted import paint, parse_cells
from regard.audits.row_audit import audit_row
from regard.audits.subject import Subject
from regard.core.errors import UserError
from regard.models.inputs import ModelInputs
from regard.models.model import Model, TokenModel
from regard.reports.charts.attention_lines import attention_lines
from regard.reports.charts.attention_maps import attention_grid, attention_map, pool_strongest
from regard.reports.charts.picture import Picture, stack_pictures, text_line
from regard.runs.inspection.inspection import DIGITS
from regard.runs.inspection.kinds_side_by_side import (
    FreshModels,
    FreshWeights,
    KindModel,
    KindModels,
    KindReading,
    TrainedModels,
    layers_to_reach,
    read_row,
)
from regard.web import plots
from regard.web.attention.choice import AttentionChoice
from regard.web.playground.models import LoadedModels

SMALL = 64
"Rows and columns of a small map; longer rows are pooled to the strongest weight."
MAX_NUMBERS = 400_000
"Weights of all heads in JSON; above it those of the chosen one alone."
MAX_ROWS = 150_000
"Of a table as CSV."
MAX_LEAKS = 400
"That are listed."
KEPT_ROWS = 8
TERMINAL = "`regard inspect` shows the attention of any model in a terminal."
COLUMNS = (
    *("kind", "layer", "head", "query", "query_token", "key", "key_token", "may_attend", "weight"),
)

Params = Mapping[str, Any]
Floats = NDArray[np.float64]


class View:
    """All that an address asks for, computed when it is needed."""

    def __init__(self, params: Params) -> None:
        self.choice = AttentionChoice.parse(params["choice"])
        text, folder = self.choice.text, params.get("folder")
        self.source: KindModels = (
            _fresh(text, self.choice.fresh.model_dump_json())
            if folder is None
            else _trained(text, Path(folder), Path(params["root"]))
        )
        self.length = len(self.source.row.ids)
        self.expression = self.choice.mask.strip() or self.source.visibility
        self.mask = paint(
            parse_mask(self.expression, self.length),
            self.length,
            allow=parse_cells(self.choice.allow),
            forbid=parse_cells(self.choice.forbid),
        )
        self.allowed: Tensor = self.mask.dense(self.length, self.length)[0, 0]
        self.declared = self.choice.declared.strip() or self.source.visibility
        self.kinds = self.choice.shown_kinds or (self.source.kind,)

    def declared_table(self) -> Tensor:
        return parse_mask(self.declared, self.length).dense(self.length, self.length)[0, 0]

    def model(self, kind: str) -> KindModel:
        return self.source.model(kind)

    def reading(self, kind: str) -> KindReading:
        return read_row(self.model(kind), self.source.ids, self.mask)

    def readings(self) -> dict[str, KindReading | str]:
        """By kind; for one that does not read this, the sentence that says why."""
        found: dict[str, KindReading | str] = {}
        for kind in self.kinds:
            try:
                found[kind] = self.reading(kind)
            except UserError as problem:
                found[kind] = str(problem)
        return found

    def chosen(self, reading: KindReading) -> tuple[int, int]:
        """Layer and head that are large: the nearest that there are."""
        layer = min(max(self.choice.layer, 0), len(reading.attention) - 1)
        return layer, min(max(self.choice.head, 0), len(reading.attention[layer].weights) - 1)


def view(params: Params) -> dict[str, Any]:
    """What the browser draws."""
    wanted = View(params)
    readings = wanted.readings()
    read = [one for one in readings.values() if isinstance(one, KindReading)]
    layers = max((len(one.attention) for one in read), default=1)
    through = min(wanted.choice.through, layers) if wanted.choice.through > 0 else layers
    return {
        "tokens": list(wanted.source.row.tokens),
        "remarks": list(wanted.source.remarks),
        "own": {"kind": wanted.source.kind, "mask": wanted.source.visibility},
        "mask": {
            "expression": wanted.expression,
            "allowed": _bytes(wanted.allowed.numpy().astype(np.uint8)),
            "plain": _bytes(_plain(wanted).numpy().astype(np.uint8)),
            "empty": int((~wanted.allowed.any(dim=1)).sum()),
        },
        "layers": layers,
        "through": through,
        "reach": _bytes(layers_to_reach(wanted.allowed, layers)),
        "kinds": [_kind(wanted, kind, found, through) for kind, found in readings.items()],
    }


def audit(params: Params) -> dict[str, Any]:
    """The leak test of every kind on this row, under this mask, against the declared one."""
    wanted = View(params)
    declared = wanted.declared_table()
    found = []
    for kind in wanted.kinds:
        try:
            wanted.reading(kind)
        except UserError:
            continue  # the view says why
        subject = _subject(kind, wanted.model(kind).model, wanted.mask)
        answer = audit_row(subject, wanted.source.ids, declared, name=wanted.declared)
        leaks = sorted(answer.leaks, key=lambda leak: -leak.influence)
        found.append(
            {
                "kind": kind,
                "verdict": answer.verdict,
                "sentence": answer.sentence,
                "leaks": [
                    {"query": one.query, "key": one.key, "influence": one.influence}
                    | {"how": one.how, "where": one.where}
                    for one in leaks[:MAX_LEAKS]
                ],
                "leak_count": len(leaks),
                "pairs": _bytes(_pairs(leaks, wanted.length)),
                "checked": list(answer.checked),
                "unchecked": list(answer.unchecked),
            }
        )
    return {"declared": wanted.declared, "kinds": plots.finite(found)}


def numbers(params: Params) -> dict[str, Any]:
    """The weights as numbers: of all heads, or of the chosen one where there are too many."""
    wanted = View(params)
    kinds: list[dict[str, Any]] = []
    for kind, found in wanted.readings().items():
        if isinstance(found, str):
            kinds.append({"kind": kind, "refused": found})
            continue
        layer, head = wanted.chosen(found)
        count = sum(one.weights.size for one in found.attention)
        every = count * len(wanted.kinds) <= MAX_NUMBERS
        heads = [
            {"layer": n, "head": h, "entropy": round(float(one.entropies[h]), DIGITS)}
            | {"weights": (one.weights[h].round(DIGITS) + 0.0).tolist()}
            for n, one in enumerate(found.attention)
            for h in range(len(one.weights))
            if every or (n, h) == (layer, head)
        ]
        fresh = list(found.fresh)
        kinds.append({"kind": kind, "fresh": fresh, "holds_all_heads": every, "heads": heads})
    return {
        "schema": 1,
        "text": wanted.choice.text,
        "tokens": list(wanted.source.row.tokens),
        "mask": wanted.expression,
        "painted": {"allow": wanted.choice.allow, "forbid": wanted.choice.forbid},
        "allowed": wanted.allowed.tolist(),
        "layers_to_reach": layers_to_reach(wanted.allowed, 255).tolist(),
        "kinds": kinds,
    }


def table(params: Params) -> dict[str, Any]:
    """The weights of the chosen head of each kind, a row for each pair that may attend or has a
    weight."""
    wanted = View(params)
    text, tokens, count = io.StringIO(), wanted.source.row.tokens, 0
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    allowed = wanted.allowed.numpy()
    for kind, found in wanted.readings().items():
        if isinstance(found, str):
            continue
        layer, head = wanted.chosen(found)
        weights = found.attention[layer].weights[head]
        pairs = np.argwhere(allowed | (weights != 0))
        count += len(pairs)
        if count > MAX_ROWS:
            raise UserError(
                f"more than {MAX_ROWS:,} rows", topic="attention", hint="Take the JSON instead."
            )
        for i, j in pairs.tolist():
            cells = (plots.safe_cell(tokens[i]), j, plots.safe_cell(tokens[j]))
            writer.writerow(
                (kind, layer, head, i, *cells, int(allowed[i, j]), f"{weights[i, j]:.6g}")
            )
    return {"body": text.getvalue().encode().hex(), "media_type": "text/csv; charset=utf-8"}


def picture(params: Params) -> dict[str, Any]:
    """The workbench on paper, as SVG or PNG; or its mask alone."""
    wanted = View(params)
    theme, width = plots.picture_options(params["options"])
    if params["name"] == "mask":
        drawn = _mask_picture(wanted, theme=plots.THEMES[theme], width=width)
    else:
        drawn = _heads_picture(wanted, theme=plots.THEMES[theme], width=width)
    if params["format"] == "png":
        return {"body": drawn.png(theme=plots.THEMES[theme]).hex(), "media_type": "image/png"}
    return {"body": drawn.svg().encode().hex(), "media_type": "image/svg+xml"}


def _heads_picture(wanted: View, *, theme: Any, width: int) -> Picture:
    tokens, line = wanted.source.row.tokens, partial(text_line, theme=theme, width=width)
    drawn = [line(wanted.choice.text, size=15), line(f"mask: {wanted.mask.name}")]
    for kind, found in wanted.readings().items():
        drawn.append(line(kind, size=14))
        if isinstance(found, str):
            drawn.append(line(found))
            continue
        layer, head = wanted.chosen(found)
        weights = found.attention[layer].weights[head]
        every = {f"layer {n}": one.weights for n, one in enumerate(found.attention)}
        drawn.append(attention_grid(every, tokens, theme=theme, width=width))
        entropy = found.attention[layer].entropies[head]
        drawn.append(line(f"{kind}, layer {layer}, head {head}: entropy {entropy:.2f} nats"))
        draw = attention_lines if wanted.choice.show == "arcs" else attention_map
        drawn.append(draw(weights, tokens, tokens, theme=theme, width=width))
    return stack_pictures(drawn, gap=18, title=f"Attention: {wanted.choice.text}")


def _mask_picture(wanted: View, *, theme: Any, width: int) -> Picture:
    tokens = wanted.source.row.tokens
    table = wanted.allowed.double().numpy()
    title = f"{wanted.mask.name}: filled = may attend"
    return stack_pictures(
        [
            text_line(title, theme=theme, width=width, size=14),
            attention_map(table, tokens, tokens, theme=theme, width=width),
        ],
        gap=10,
        title=title,
    )


def _kind(wanted: View, kind: str, found: KindReading | str, through: int) -> dict[str, Any]:
    if isinstance(found, str):
        return {"kind": kind, "refused": found}
    layer, head = wanted.chosen(found)
    return {
        "kind": kind,
        "fresh": list(found.fresh),
        "heads": [
            [
                {"entropy": float(entropy), "image": _image(weights)}
                for weights, entropy in zip(one.weights, one.entropies, strict=True)
            ]
            for one in found.attention
        ],
        "layer": layer,
        "head": head,
        "weights": _bytes(found.attention[layer].weights[head].astype("<f4")),
        "rollout": _bytes(found.rollouts[min(through, len(found.rollouts)) - 1].astype("<f4")),
    }


def _plain(wanted: View) -> Tensor:
    """The expression without what is painted."""
    return parse_mask(wanted.expression, wanted.length).dense(wanted.length, wanted.length)[0, 0]


def _image(weights: Floats) -> dict[str, Any]:
    """√weight in 0 … 255, pooled: a small map."""
    pooled = np.sqrt(np.minimum(np.abs(pool_strongest(weights, SMALL)), 1.0))
    return {"size": len(pooled), "levels": _bytes((255 * pooled).round().astype(np.uint8))}


def _pairs(leaks: Any, length: int) -> NDArray[np.uint8]:
    found = np.zeros((length, length), dtype=np.uint8)
    for one in leaks:
        found[one.query, one.key] = 1
    return found


def _subject(kind: str, model: TokenModel, mask: Mask) -> Subject:
    def run(module: TokenModel, ids: Tensor, valid: Tensor | None) -> Tensor:
        return module.position_outputs(module.hidden_states(ModelInputs(ids, mask=mask)))

    return Subject(
        kind,
        run,
        module=model,
        vocabulary=model.vocabulary,
        max_length=model.context,
        embedding=model.token_table,
    )


def _bytes(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


@lru_cache(maxsize=KEPT_ROWS)
def _fresh(text: str, fresh: str) -> FreshModels:
    return FreshModels.of_text(text, FreshWeights.model_validate_json(fresh))


def _trained(text: str, folder: Path, root: Path) -> TrainedModels:
    """Models of other kinds stay while the run's own model is kept."""
    try:
        _, loaded = _models.get(folder, root=root)
    except UserError as problem:
        raise UserError(problem.what, topic="attention", hint=TERMINAL) from None
    built = _built.setdefault(loaded.model, {})
    return TrainedModels.of_text(text, loaded, built=built)


# Its own: adapters are merged into these models, and the playground's stay as they are.
_models = LoadedModels()
_built: WeakKeyDictionary[Model, dict[str, KindModel]] = WeakKeyDictionary()

METHODS = {
    "attention": view,
    "attention-audit": audit,
    "attention-numbers": numbers,
    "attention-table": table,
    "attention-picture": picture,
}
