"""`regard serve`: one sentence where it cannot start, and an address where it can."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from regard.cli.web import serve as command
from regard.core.errors import UserError
from regard.web.serve import LOOPBACK, bind


def serve(root, **options):
    given = {"port": 0, "opens_browser": False, "expose_as": None, **options}
    command.serve(root=root, **given)


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape("pip install 'regard[page]'")):
        serve(tmp_path)


def test_without_a_folder_it_says_where_runs_come_from(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        serve(tmp_path / "nowhere")


def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server((LOOPBACK, 0)) as taken, pytest.raises(UserError, match="--port"):
        serve(tmp_path, port=taken.getsockname()[1])


@pytest.mark.parametrize(("name", "host"), [(None, "127.0.0.1"), ("lab.example", "0.0.0.0")])
def test_others_can_connect_only_where_that_is_said(tmp_path, name, host):
    listening, address, guard = bind(tmp_path, port=0, expose_as=name)
    with contextlib.closing(listening):
        assert listening.getsockname()[0] == host
        port = listening.getsockname()[1]
        assert address.startswith(f"http://{name or host}:{port}/?token=")
        names = {name} if name else {"127.0.0.1", "localhost"}
        assert guard.hosts == {f"{one}:{port}" for one in names}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_it_and_only_the_address_is_on_standard_output(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "serve", "--port", "0", "--in", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address.partition("?")[0], timeout=30)
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=30)
    assert rest == ""
    assert "Ctrl-C" in said
    assert "Traceback" not in said
    assert process.returncode in (0, 130)
    assert list(tmp_path.iterdir()) == []
