"""Every line on safety in the description of the page, held against a real server."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest

from enlist.errors import InputError
from enlist.runs.example import example_run, write_run
from enlist.ui import guard, server, watcher
from enlist.ui.guard import Guard
from tests.hostile import NAMES
from tests.ui.ui_helpers import Server, comparison, everything, federation, unfinished

TOKEN = "t" * 43
PATHS = (
    "/", "/run/all/single", "/data/runs", "/data/run/all/single", "/data/compare?of=all/compared", "/pages/style.css",
    "/chart/accuracy-time/run/all/single", "/table/rounds/run/all/single", "/report/run/all/single", "/metrics",
    "/data/federation/all/clinic", "/data/personal/all/personal/2/0", "/data/study/all/study", "/health",
    "/table/runs/runs",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return everything(tmp_path_factory.mktemp("ui") / "all")


@pytest.fixture(scope="module")
def page(folders):
    with Server(folders) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(folders):
    with Server(folders, host="0.0.0.0", token=TOKEN, names=["lab.example"]) as client:
        yield client


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below a folder, with what it holds and when it was changed."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_nothing_is_written(page, folders):
    before, files = fingerprint(folders), sorted(folders.rglob("*"))
    for path in PATHS:
        assert page.get(path).status_code in (200, 404), path
    assert fingerprint(folders) == before
    assert sorted(folders.rglob("*")) == files


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_allowed(page, method):
    for path in PATHS:
        assert page.request(method, path).status_code == 405


def test_loopback_needs_no_token_and_is_the_default():
    import inspect

    assert inspect.signature(server.serve).parameters["host"].default == "127.0.0.1"
    assert guard.is_loopback("127.0.0.1")
    assert not guard.is_loopback("0.0.0.0")


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_there_is_nothing(guarded, path):
    found = httpx.get(f"{guarded.base_url}{path}", trust_env=False)
    assert found.status_code == 401
    assert "token" in found.text
    assert TOKEN not in found.text


@pytest.mark.parametrize("wrong", ["x", "t" * 42, "t" * 44, "T" * 43, "\u00fc" * 43])
def test_a_wrong_token_is_refused(guarded, wrong):
    for given in (
        {"params": {"token": wrong}},
        {"headers": {"Cookie": f"enlist-{guarded.port}={wrong}".encode()}},
        {"headers": {"Authorization": f"Bearer {wrong}".encode()}},
    ):
        assert httpx.get(f"{guarded.base_url}/data/runs", trust_env=False, **given).status_code == 401


def test_after_the_first_visit_a_cookie_admits_and_the_address_is_clean(guarded):
    with httpx.Client(base_url=guarded.base_url, trust_env=False) as visitor:
        first = visitor.get("/run/all/single", params={"token": TOKEN, "round": "3"})
        assert (first.status_code, first.headers["location"]) == (303, "/run/all/single?round=3")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert visitor.get("/data/runs").status_code == 200
    bearer = httpx.get(f"{guarded.base_url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
    assert bearer.status_code == 200


def test_a_redirect_leads_nowhere_else(guarded):
    found = httpx.get(f"http://127.0.0.1:{guarded.port}//evil.example/x?token={TOKEN}", trust_env=False)
    assert found.headers["location"] == "/evil.example/x"


def test_tokens_are_compared_in_constant_time(monkeypatch):
    asked = []
    monkeypatch.setattr(guard.hmac, "compare_digest", lambda one, other: asked.append((one, other)) or False)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"token=abc",
        "headers": [(b"host", b"localhost")],
    }
    assert Guard(None, "0.0.0.0", TOKEN).refusal(scope).status_code == 401
    assert asked == [(b"abc", TOKEN.encode())]


def test_no_token_is_in_any_log(folders, caplog, capfd):
    with caplog.at_level(logging.DEBUG), Server(folders, host="0.0.0.0", token=TOKEN) as client:
        client.get("/", params={"token": TOKEN}, follow_redirects=True)
        client.get("/data/run/none", params={"token": TOKEN})
        client.get("/data/runs", params={"token": "wrong"})
    output = capfd.readouterr()
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    text = "".join(record.getMessage() for record in ours) + output.out + output.err
    assert TOKEN not in text


def test_the_server_makes_a_token_for_other_addresses_and_shows_it_once(monkeypatch, tmp_path):
    started, shown = [], []
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: started.append(self.config))
    server.serve([tmp_path], host="0.0.0.0", port=0, say=shown.append)
    server.serve([tmp_path], port=0, say=shown.append)
    assert len(shown[0].partition("?token=")[2]) >= 40
    assert "token" not in shown[1]
    assert not any(config.access_log for config in started)
    monkeypatch.setenv(server.TOKEN, "short")
    with pytest.raises(InputError, match="at least 20"):
        server.serve([tmp_path], host="0.0.0.0", port=0, say=shown.append)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="--port"):
        server.listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1", "localhost."]
)
def test_another_host_name_is_refused(page, host):
    assert page.get("/data/runs", headers={"Host": host}).status_code == 421 or host == ""
    if host == "":
        assert page.get("/data/runs", headers={"Host": host}).status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST"])
def test_names_of_this_machine_are_accepted(page, host):
    assert page.get("/data/runs", headers={"Host": host}).status_code == 200


def test_on_another_address_its_names_are_accepted(guarded):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for host in ("lab.example", "10.1.2.3:8765", socket.gethostname()):
        assert guarded.get("/health", headers={**headers, "Host": host}).status_code == 200
    assert guarded.get("/health", headers={**headers, "Host": "evil.example"}).status_code == 421


def test_pages_of_other_sites_may_link_and_not_read(page):
    read = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert page.get("/data/runs", headers=read).status_code == 403
    assert page.get("/events", headers=read).status_code == 403
    follow = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert page.get("/run/all/single", headers=follow).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_binds_the_browser(page, path):
    headers = page.get(path).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    if "attachment" in headers.get("content-disposition", ""):
        assert policy == "sandbox"
    else:
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_the_page_has_no_inline_script_or_style():
    for path in (Path(server.__file__).parent / "pages").iterdir():
        text = path.read_text()
        if path.suffix == ".html":
            assert " style=" not in text
            assert "onclick" not in text
            assert "<script>" not in text
        assert "innerHTML" not in text
        assert "eval(" not in text
        assert "document.write" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text


OUTSIDE = (
    "../secret", "..%2Fsecret", "all/../../secret", "all/%2e%2e/%2e%2e/secret", "all//single", "/etc", "all/link",
    "all/single/../../secret", "all\\..\\secret", "%00", "all/single%00", ".", "all/link/run", "all/single/rounds.csv",
)  # fmt: skip


def test_no_path_leads_out_of_the_folders(tmp_path):
    write_run(example_run("hush"), tmp_path / "secret")
    everything(tmp_path / "all")
    (tmp_path / "all" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "all" / "study" / "figures").mkdir()
    (tmp_path / "all" / "study" / "figures" / "x.png").symlink_to("/etc/hostname")
    with Server(tmp_path / "all") as client:
        assert "hush" not in client.get("/data/runs").text
        for id in OUTSIDE:
            for start in ("/data/run/", "/table/rounds/run/", "/report/run/", "/figure/", "/data/compare?of="):
                found = client.get(f"{start}{id}")
                assert found.status_code in (400, 404), (start, id)
                assert "hush" not in found.text
        for path in ("/pages/../app.py", "/pages/..%2fapp.py", "/pages/%2e%2e/app.py", "/figure/all/study/x"):
            found = client.get(path)
            assert found.status_code in (400, 404), path
            assert "import" not in found.text


def test_a_file_that_is_a_link_is_not_read(tmp_path):
    folder = write_run(example_run(), tmp_path / "all" / "run")
    (tmp_path / "secret.csv").write_text((folder / "participations.csv").read_text().replace("completed", "secret!!!"))
    (folder / "participations.csv").unlink()
    (folder / "participations.csv").symlink_to(tmp_path / "secret.csv")
    with Server(tmp_path / "all") as client:
        found = client.get("/data/run/all/run")
        assert found.json()["state"]["state"] == "damaged"
        assert "symbolic link" in found.text
        assert "secret!!!" not in found.text + client.get("/table/participations/run/all/run").text


def test_no_code_that_a_folder_names_is_imported(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    place = comparison(tmp_path / "all" / "compared")
    federation(tmp_path / "all" / "clinic")
    for path in [*place.rglob("config.json"), tmp_path / "all" / "clinic" / "config.json"]:
        config = json.loads(path.read_text())
        config |= {"selector": {"name": "trap:Selector"}, "model": {"name": "python", "factory": "trap:Net"}}
        path.write_text(json.dumps(config))
    with Server(tmp_path / "all") as client:
        for view in ("compare?of=all/compared", "run/all/compared/runs/oort/0", "federation/all/clinic"):
            assert client.get(f"/data/{view}").status_code == 200
            assert client.get(f"/report/{view}").status_code == 200
        assert client.get("/metrics").status_code == 200
    assert "trap" not in sys.modules


def test_hostile_names_come_as_text_and_break_nothing(tmp_path):
    for number, name in enumerate(NAMES):
        folder = write_run(example_run("oort", number), tmp_path / "all" / f"{number}")
        config = json.loads((folder / "config.json").read_text())
        config["selector"] = {"name": "oort", "label": name}
        (folder / "config.json").write_text(json.dumps(config))
    with Server(tmp_path / "all") as client:
        rows = client.get("/data/runs").json()["rows"]
        assert len(rows) == len(NAMES)
        for row in rows:
            assert row["state"] == "finished"
            for view in (f"/data/run/{row['id']}", f"/chart/accuracy-time/run/{row['id']}"):
                found = client.get(view)
                assert found.status_code == 200
                assert found.headers["content-type"] == "application/json"
                json.dumps(found.json(), allow_nan=False)
        assert client.get("/metrics").status_code == 200


def test_viewers_that_vanish_free_what_they_used(page):
    def watching_now():
        return page.health()["viewers"]

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        sockets = []
        for _ in range(20):
            connection = socket.create_connection(("127.0.0.1", page.port))
            connection.sendall(b"GET /events?of=all/single HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"text/event-stream" in connection.recv(4096)
            sockets.append(connection)
        deadline = time.monotonic() + 20
        while watching_now() < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert watching_now() == 20
        for connection in sockets:
            connection.close()
        while watching_now() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert watching_now() == 0
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_the_number_of_viewers_is_bounded(page, monkeypatch):
    monkeypatch.setattr("enlist.ui.app.MOST_VIEWERS", 0)
    assert page.get("/events").status_code == 503
    assert watcher.MOST_VIEWERS <= 1_000


def test_long_addresses_and_many_ids_are_refused(page):
    assert page.get("/data/run/" + "x" * 5_000).status_code == 404
    many = "&".join(f"of=all/single{number}" for number in range(200))
    assert page.get(f"/data/compare?{many}").status_code == 404


def test_a_folder_that_goes_away_is_gone(tmp_path):
    unfinished(tmp_path / "all" / "going", rounds=2)
    write_run(example_run(), tmp_path / "all" / "there")
    with Server(tmp_path / "all") as client:
        assert client.get("/data/run/all/going").status_code == 200
        shutil.rmtree(tmp_path / "all" / "going")
        assert client.get("/data/run/all/going").status_code in (200, 404)
        client.application.catalogue._scanned = -1e9
        time.sleep(0.5)
        assert client.get("/data/run/all/going").status_code == 404
        assert [row["id"] for row in client.get("/data/runs").json()["rows"]] == ["all/there"]
