"""How fast a run folder travels from a node to the driver of a Ray study.

    .venv/bin/python -m benchmarks.folder_transfer                # folders of 0.1, 10 and 200 MB
    .venv/bin/python -m benchmarks.folder_transfer --sizes 1      # minimal

One node on this machine sends a folder of 24 files of random bytes; the driver writes it, checked
and synced, as `studies/engines/ray/` does. Prints the median of five. Writes
results/folder-transfer.json if that folder exists.
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
from regard.studies.engines.ray.folder_transfer import FolderReceiver, decode

HERE = Path(__file__).parent
FILES, ROUNDS = 24, 5


def packing_task() -> Any:
    def pack_folder(folder: str) -> Iterator[bytes]:
        from pathlib import Path

        from regard.studies.engines.ray.folder_transfer import list_files, send_folder

        home = Path(folder)
        yield from send_folder(home, list_files(home), held={})

    return pack_folder


def travel(cluster: Cluster, task: Any, source: Path, target: Path) -> float:
    began, receiver = time.perf_counter(), None
    stream = task.remote(str(source))
    while (message := cluster.receive(stream)) is not None:
        header, payload = decode(message)
        if header["kind"] == "folder":
            receiver = FolderReceiver(target, header)
        elif receiver is not None:
            receiver.take(payload)
    assert receiver is not None
    receiver.commit()
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
        (HERE / "results" / "folder-transfer.json").write_text(text)


if __name__ == "__main__":
    main()
