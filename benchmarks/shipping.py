"""How fast a run folder travels from a node to the driver of a Ray study.

    .venv/bin/python -m benchmarks.shipping                # folders of 0.1, 10 and 200 MB
    .venv/bin/python -m benchmarks.shipping --sizes 1      # minimal

One node on this machine packs a folder of 24 files of random bytes; the driver writes it, checked
and synced, as `studies/engines/ray/` does. Prints the median of five. Writes results/shipping.json
if that folder exists.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from regard.studies.engines.ray.cluster import MESSAGES_AHEAD, Cluster
from regard.studies.engines.ray.parcels import Unpacker, decode

HERE = Path(__file__).parent
FILES, ROUNDS = 24, 5


def packing_task() -> Any:
    def pack_folder(folder: str) -> Iterator[bytes]:
        from pathlib import Path

        from regard.studies.engines.ray.parcels import list_files, pack

        home = Path(folder)
        yield from pack(home, list_files(home), held={})

    return pack_folder


def travel(cluster: Cluster, task: Any, source: Path, target: Path) -> float:
    began, unpacker = time.perf_counter(), None
    stream = task.remote(str(source))
    while (message := cluster.receive(stream)) is not None:
        header, payload = decode(message)
        if header["kind"] == "folder":
            unpacker = Unpacker(target, header)
        elif unpacker is not None:
            unpacker.take(payload)
    assert unpacker is not None
    unpacker.put_in_place()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 10, 200], help="MB")
    arguments = parser.parse_args()
    cluster = Cluster.connect(None, slots=1)
    try:
        import ray

        task = ray.remote(packing_task()).options(
            num_returns="streaming", _generator_backpressure_num_objects=MESSAGES_AHEAD
        )
        rows = []
        with tempfile.TemporaryDirectory() as name:
            for megabytes in arguments.sizes:
                source, target = Path(name, f"source-{megabytes}"), Path(name, "target")
                source.mkdir()
                for number in range(FILES):
                    size = round(megabytes * 1e6 / FILES)
                    (source / f"file-{number}").write_bytes(os.urandom(size))
                travel(cluster, task, source, target)  # imports
                seconds = median(travel(cluster, task, source, target) for _ in range(ROUNDS))
                rows.append({"megabytes": megabytes, "seconds": seconds})
                print(f"{megabytes:8,.1f} MB {seconds:8.3f} s {megabytes / seconds:8.0f} MB/s")
    finally:
        cluster.close()
    if (HERE / "results").is_dir():
        text = json.dumps({"folders": rows, "cores": os.cpu_count()}, indent=2) + "\n"
        (HERE / "results" / "shipping.json").write_text(text)


if __name__ == "__main__":
    main()
