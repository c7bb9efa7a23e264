"""The server: what it answers, what it refuses, and that it changes nothing."""

import hashlib
import json
import os
import socket
import sqlite3
import threading

import numpy as np
import pytest
from looking import STUDY, get, serving, until

from headstart.lab.live import LiveFile
from headstart.lab.store import open_store
from headstart.web.encoding import to_json


@pytest.fixture(scope="module")
def port(smoke):
    with serving(smoke) as port:
        yield port


def ask(port, path, status=200, **headers):
    found, _, body = get(port, path, **headers)
    assert found == status, body
    return json.loads(body)


def test_the_scoreboard_has_every_claim_as_the_store_has_it(port, smoke):
    (study,) = ask(port, "/api/scoreboard")["studies"]
    with open_store(smoke) as store:
        report = store.studies.reports()[STUDY]
    assert study["finding"] == report["finding"]
    shown = [{name: claim[name] for name in report["claims"][0]} for claim in study["claims"]]
    assert shown == report["claims"]
    assert all(claim["interval"] for claim in study["claims"])


def test_a_study_says_labels_colours_and_what_claims_compare(port):
    report = ask(port, f"/api/study?name={STUDY}")
    small, large = report["arms"]["sgd_parity_small"], report["arms"]["sgd_parity_large"]
    assert (small["label"], small["colour"]) == ("48 samples", "#D55E00")
    assert large["label"] == "fresh samples"
    assert small["metric"]["higher_is_better"] is True
    claim = next(claim for claim in report["claims"] if claim["id"] == "sgd_parity_steps")
    assert claim["contrast"] == {"arms": ["sgd_parity_small", "sgd_parity_large"], "target": 0.55, "axis": "steps"}


def test_curves_are_the_mean_and_the_band_over_the_seeds_of_an_arm(port, smoke):
    arm = ask(port, f"/api/study?name={STUDY}")["arms"]["gd_index_small"]
    (made,) = ask(port, f"/api/curves?series={arm['series']}&metric=test_relative_loss&axis=samples")["series"]
    with open_store(smoke) as store:
        traces = store.traces(STUDY, "gd_index_small")
    mean = traces.stack("test_relative_loss").mean(axis=0)
    np.testing.assert_allclose(made["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(made["samples"], traces.grid().samples, rtol=1e-5)
    assert made["seeds"] == len(traces)
    assert all(low <= value <= high for low, value, high in zip(made["low"], made["mean"], made["high"], strict=True))


def test_cells_and_runs_have_their_settings_and_final_values(port, smoke):
    cells = {cell["cell"]: cell for cell in ask(port, "/api/cells")["cells"]}
    with open_store(smoke) as store:
        (row,) = store.studies.serving(STUDY, "sgd_index_small")
        finals = [summary.final for summary in store.summaries(row.cell)]
    cell = cells[row.cell]
    assert cell["num"] == len(finals)
    assert cell["mean"] == pytest.approx(np.mean(finals))
    assert cell["squares"] == pytest.approx(np.var(finals) * len(finals))
    assert [STUDY, "sgd_index_small", "claim"] in cell["users"]
    assert cell["settings"]["task"] == "SingleIndex"
    runs = ask(port, f"/api/runs?cell={row.cell}")
    assert [run["final"] for run in runs["runs"]] == pytest.approx(finals)


def test_every_answer_keeps_strangers_out_and_sets_no_cookie(port):
    for path in ("/", "/app.js", "/api/scoreboard", "/nothing"):
        _, headers, _ = get(port, path)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in {name.lower() for name in headers}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(port, method):
    status, _, body = get(port, "/api/scoreboard", method)
    assert (status, body) == (405, b"this page only reads: use GET\n")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example"])
def test_a_hostile_host_header_is_refused(port, host):
    status, _, body = get(port, "/api/scoreboard", host=host)
    assert status == 400
    assert b"host name" in body
    assert get(port, "/", host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/static/../../x",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fserver.py",
        "/vendor/..",
        "//etc",
        "/a%00b",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(port, path):
    status, _, body = get(port, path)
    assert status in (400, 404)
    assert b"no such" in body


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/study?name=none/such", 404, "none/such is not in the store"),
        ("/api/study?name=../x", 400, "give a name"),
        (f"/api/study?name={STUDY}&preset=paper", 404, "presets smoke"),
        ("/api/curves?series=xyz&metric=test_loss", 400, "hexadecimal"),
        ("/api/curves?series=" + "a" * 20 + "&metric=test_loss", 404, "no curve of test_loss"),
        ("/api/curves?series=" + "a" * 20 + "&metric=test_loss&axis=moons", 400, "steps, samples, flops"),
        ("/api/curves?series=" + "a" * 20 + "&metric=test_loss&width=10000000", 400, "pixels"),
        ("/api/curves?series=" + "a" * 20 + "&metric=test_loss&from=nan", 400, "give a number"),
        ("/api/curves?series=" + ";".join(["a" * 20] * 99) + "&metric=test_loss", 400, "1 to 64 lines"),
        ("/api/runs?cell=" + "b" * 20, 404, "not in the store"),
        ("/api/nothing", 404, "no nothing"),
    ],
)
def test_a_parameter_that_says_nothing_is_refused_in_words(port, path, status, said):
    assert said in ask(port, path, status)["error"]


def test_an_address_that_is_too_long_is_refused(port):
    assert get(port, "/api/cells?x=" + "y" * 9000)[0] == 414


def test_looking_changes_nothing(smoke):
    def digest():
        names = {name for name in os.listdir(smoke.parent) if not name.endswith(("-wal", "-shm"))}
        return hashlib.sha256(smoke.read_bytes()).hexdigest(), names

    before = digest()
    with serving(smoke) as port:
        for path in ("/api/scoreboard", "/api/cells", f"/api/study?name={STUDY}"):
            ask(port, path)
        connection = sqlite3.connect(smoke, timeout=1)  # a writer is not kept waiting by those who look
        connection.execute("BEGIN IMMEDIATE")
        ask(port, "/api/cells?again=1")
        connection.rollback()
        connection.close()
    assert digest() == before


def test_the_token_is_asked_for_and_compared_whole(smoke):
    token = "a token of many letters"
    with serving(smoke, token) as port:
        assert get(port, "/")[0] == 200
        assert get(port, "/api/scoreboard")[0] == 401
        assert get(port, "/events")[0] == 401
        assert get(port, "/api/scoreboard", authorization=f"Bearer {token[:-1]}")[0] == 401
        assert get(port, "/api/scoreboard", authorization=f"Bearer {token}")[0] == 200


def test_a_report_that_cannot_be_shown_leaves_the_others_on_the_page(smoke, tmp_path):
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(smoke) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
        copy.execute("INSERT INTO reports VALUES ('broken/one', 'smoke', '{}', '{\"claims\": 3}', 0, 0)")
        copy.execute("INSERT INTO reports VALUES ('broken/two', 'smoke', '{}', 'no json', 0, 0)")
    source.close()
    copy.close()
    with serving(path) as port:
        board = ask(port, "/api/scoreboard")
    assert [study["study"] for study in board["studies"]] == [STUDY]
    assert {each["study"] for each in board["refused"]} == {"broken/one", "broken/two"}


def test_a_huge_cell_and_one_whose_parts_cannot_be_imported_are_shown_as_far_as_they_go(smoke, tmp_path):
    path = tmp_path / "store.sqlite"
    foreign = json.dumps({"type": "nowhere.to:Be", "task": {"type": "nowhere.to:Find", "size": 3}})
    huge = json.dumps({f"knob{i}": "x" * 50 for i in range(40_000)})
    deep = "[" * 100_000 + "]" * 100_000
    with sqlite3.connect(smoke) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
        for cell, text in (("aa" * 10, foreign), ("bb" * 10, huge), ("cc" * 10, deep)):
            copy.execute("INSERT INTO cells VALUES (?, ?, '[]', NULL)", (cell, text))
            copy.execute("INSERT INTO summaries VALUES (?, 0, 'finished', 1, 1, 1, 1, x'', NULL)", (cell,))
    source.close()
    copy.close()
    with serving(path) as port:
        cells = {cell["cell"]: cell["settings"] for cell in ask(port, "/api/cells")["cells"]}
    assert cells["aa" * 10] == {"task": "Find", "task.size": 3}
    assert cells["bb" * 10] == cells["cc" * 10] == {"cell": "its settings are too large to be shown"}


def listen(port):
    """An open stream of events: (socket, file)."""
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return made, made.makefile("rb")


def messages(file):
    for line in file:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_events_tell_of_live_records_and_of_what_is_stored(smoke, tmp_path):
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(smoke) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    source.close()
    copy.close()
    with serving(path) as port:
        connection, file = listen(port)
        said = messages(file)
        first = next(said)
        assert first["sessions"] == []
        live = LiveFile(path, {"study": "s"}, lambda run: None)
        live.say_progress("training", 1.0, 4.0, "1/4 runs")
        news = list(next(said)["news"])
        assert {"session": live.path.name, "about": {"study": "s"}} in news
        assert any(each.get("progress", {}).get("done") == 1.0 for each in news)
        live.close()
        assert any(each.get("over") for each in next(said)["news"])
        with sqlite3.connect(path) as writer:
            writer.execute("INSERT INTO sessions (study) VALUES ('s')")
        writer.close()
        assert next(said)["version"] != first["version"]
        connection.close()


def test_a_client_that_vanishes_leaves_the_others_their_events(smoke):
    with serving(smoke) as port:
        for _ in range(8):
            connection, file = listen(port)
            file.readline()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            file.close()
            connection.close()  # reset, in the middle of the stream
        connection, file = listen(port)
        assert "sessions" in next(messages(file))
        assert ask(port, "/api/scoreboard")["studies"]
        connection.close()


def test_many_ask_at_once(port):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(port, "/api/cells"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert until(lambda: len(answers) == 8)


def test_numbers_have_six_digits_and_what_is_no_number_is_null():
    values = np.array([0.5, 1 / 3, 123456.789, 1e12 / 7, 0.0, -2e-5 / 3, np.nan, np.inf])
    assert json.loads(to_json(values)) == [0.5, 0.333333, 123457, 142857000000, 0, -6.66667e-06, None, None]
