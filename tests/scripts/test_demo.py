"""The demonstration: it runs, nothing differs, and it would say so if something did."""

import datetime as dt
import subprocess
import sys
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from scripts.show import receiver, verdict
from scripts.show.receiver import applied, is_signed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_one_turn_is_shown_through_the_death_of_its_worker_and_nothing_differs(tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text((ROOT / "Procfile").read_text())
    command = [sys.executable, "-m", "scripts.demo", "--once"]
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "kill -9" in result.stdout
    assert "has taken partition" in result.stdout
    assert "Nothing differs." in result.stdout


def test_what_is_set_wrong_ends_it_in_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.demo", "--once"]
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "FOLDLINE_REDIS_URL": "nowhere"}
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("scripts/run: redis.url: ")


def test_the_first_difference_is_named() -> None:
    assert verdict._same("abc", "abc") == "equal"
    assert verdict._same("abX", "abc") == "DIFFERS at character 2 (3 characters)"
    assert verdict._same("ab", "abc") == "DIFFERS at character 2 (2 characters)"


def test_the_receivers_log_is_read_with_each_id_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = '{"headers": {"webhook-id": "%s"}, "signed": %s, "body": "{\\"turn\\": \\"%s\\", \\"n\\": %d}"}\n'
    rows = [
        ("a", "true", "t", 1),
        ("b", "true", "t", 2),
        ("a", "true", "t", 1),
        ("c", "false", "t", 3),
        ("d", "true", "u", 4),
    ]
    log.write_text("".join(line % row for row in rows))
    bodies, repeats = applied(log, "t")
    assert [body["n"] for body in bodies] == [1, 2]
    assert repeats == 1
    assert applied(tmp_path / "none", "t") == ([], 0)


def test_the_receiver_knows_a_signature_of_the_official_library() -> None:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    signature = Webhook(receiver.SECRET).sign("msg_1", now, "{}")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}
    assert is_signed(headers, b"{}")
    assert not is_signed(headers, b"{ }")
