"""The form of secrets: what is refused, what is only doubted, and that no message repeats one."""

import base64

import pytest

from workers.config.credentials import is_variable, login_problem, secret_doubt, secret_problem, webhook_key


def webhook(length: int) -> str:
    return "whsec_" + base64.b64encode(bytes(length)).decode()


@pytest.mark.parametrize(
    ("channel", "secret", "problem"),
    [
        ("telegram", "42:hid den", "white space"),
        ("telegram", "42:hidden\n", "white space"),
        ("matrix", "https://hidden", "a URL"),
        ("discord", "Bot hidden", "the word Bot"),
        ("slack", "Bearer hidden", "the word Bearer"),
        ("slack", "xoxb-hiddén", "characters"),
        ("slack", "xoxb-hidden\x7f", "characters"),
        ("webhook", "hidden", "begins with whsec_"),
        ("webhook", "https://hidden", "begins with whsec_"),
        ("webhook", "whsec_hidden$", "base64"),
        ("webhook", "whsec_hidden aa", "white space"),
        ("webhook", "whsec_", "nothing stands behind"),
    ],
)
def test_a_secret_that_no_receiver_takes_is_refused_without_repeating_it(
    channel: str, secret: str, problem: str
) -> None:
    told = secret_problem(channel, secret)
    assert told is not None
    assert problem in told
    assert "hid" not in told


@pytest.mark.parametrize(
    ("channel", "usual", "unusual"),
    [
        ("discord", "MTk4.Cl2F-Q.ZnC_jm1", "MTk4"),
        ("slack", "xoxb-1-2-a", "1-2-a"),
        ("slack", "xoxe.xoxb-1-a", "token"),
        ("telegram", "110201543:AAHdqT-_jd", "AAHdqT"),
        ("webhook", webhook(24), webhook(23)),
        ("webhook", webhook(64), webhook(65)),
    ],
)
def test_an_unusual_form_is_doubted_and_works(channel: str, usual: str, unusual: str) -> None:
    assert (secret_problem(channel, usual), secret_problem(channel, unusual)) == (None, None)
    assert secret_doubt(channel, usual) is None
    assert secret_doubt(channel, unusual)


def test_any_token_may_be_one_of_matrix() -> None:
    assert secret_problem("matrix", "anything") is None
    assert secret_doubt("matrix", "anything") is None


def test_a_webhooks_key_is_what_stands_behind_the_prefix() -> None:
    assert webhook_key("whsec_AAEC") == b"\x00\x01\x02"


@pytest.mark.parametrize("login", ["", "name", ":word", "na\nme:word"])
def test_a_login_is_a_user_and_a_password(login: str) -> None:
    assert login_problem(login)
    assert login_problem("name:wo:rd") is None


@pytest.mark.parametrize("name", ["xoxb-1-2", "42:AA", "a.b.c", "https://x", "whsec_AAEC", "7UP", "A B", ""])
def test_a_secret_is_no_name_of_a_variable(name: str) -> None:
    assert not is_variable(name)
    assert is_variable("TEAM_TOKEN_7")
