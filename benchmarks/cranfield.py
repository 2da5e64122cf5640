"""Convert Cranfield's SMART files to tables for the task `retrieval`.

python benchmarks/cranfield.py FOLDER OUT      then, beside OUT: regard train cranfield.toml

documents.jsonl   id, text             every abstract with a text, which begins with its title
pairs.jsonl       query, document      title and abstract, for training: no query, no judgement
queries.jsonl     query_id, query      numbered by position in the file, as in the judgements
judgements.txt    query 0 document grade, as in QRelsCorrectedforTRECeval: 1 to 4, and 5
                  for the paper the query came from
"""

import json
import lzma
import re
import sys
from pathlib import Path

ENTRY = re.compile(r"^\.I +(\d+)\n(.*?)(?=^\.I |\Z)", re.DOTALL | re.MULTILINE)


def field(entry: str, tag: str) -> str:
    """The text under a SMART tag, on one line."""
    found = re.search(rf"^\.{tag}\n(.*?)(?=^\.[A-Z]$|\Z)", entry, re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def write(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{file}: {len(rows):,} rows")


def main(folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    archive = lzma.decompress((folder / "cran.all.1400.xz").read_bytes()).decode()
    entries = [
        (number, field(text, "T"), field(text, "W")) for number, text in ENTRY.findall(archive)
    ]
    documents = [(number, title, text) for number, title, text in entries if text]
    queries = [field(text, "W") for _, text in ENTRY.findall((folder / "cran.qry").read_text())]
    write(out / "documents.jsonl", [{"id": number, "text": text} for number, _, text in documents])
    write(
        out / "pairs.jsonl",
        [{"query": title, "document": text} for _, title, text in documents if title],
    )
    write(
        out / "queries.jsonl",
        [
            {"query_id": str(number), "query": query}
            for number, query in enumerate(queries, start=1)
        ],
    )
    judgements = (folder / "QRelsCorrectedforTRECeval").read_text().split()
    lines = [" ".join(judgements[i : i + 4]) for i in range(0, len(judgements), 4)]
    (out / "judgements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{out / 'judgements.txt'}: {len(lines):,} judgements")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
