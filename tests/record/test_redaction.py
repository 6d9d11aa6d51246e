"""Secrets leave what the record tells; what says which secret it was stays, and a second time changes nothing."""

import logging
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import Agent, ConfigurationError
from interpose.redaction import LIMIT, REDACTOR, Redactor
from interpose.testing import ScriptedModel

HIDDEN = "[REDACTED]"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"
LONG = "Zq7Xw9Lm2Nc4Vb6Kd8Rt1Yp3Sf5Gh0Jk"
TEXTS = {
    "bearer": ("Authorization: Bearer abcdefgh", f"Authorization: Bearer {HIDDEN}"),
    "bearer in lower case": ("bearer 12345678", f"bearer {HIDDEN}"),
    "basic": ("Basic dXNlcjpwYXNz", f"Basic {HIDDEN}"),
    "basic as a word": ("a basic introduction", "a basic introduction"),
    "bearer, too short": ("Bearer abcdefg", "Bearer abcdefg"),
    "url": ("postgres://bob:hunter2@db.example.com:5432/x", f"postgres://bob:{HIDDEN}@db.example.com:5432/x"),
    "url without user": ("redis://:hunter2@cache/0", f"redis://:{HIDDEN}@cache/0"),
    "url, odd password": ("mysql://bob:pa/ss@db/x", f"mysql://bob:{HIDDEN}@db/x"),
    "url with a port": ("http://host:8080/u?mail=a@b.c", "http://host:8080/u?mail=a@b.c"),
    "sk-": ("sk-" + "a" * 16, f"sk-{HIDDEN}"),
    "sk-, too short": ("sk-" + "a" * 15, "sk-" + "a" * 15),
    "sk- with parts": ("sk-proj-abc_DEF-0123456789", f"sk-{HIDDEN}"),
    "pk-": ("pk-" + "1" * 20, f"pk-{HIDDEN}"),
    "rk-": ("rk-" + "z" * 16, f"rk-{HIDDEN}"),
    "within a word": ("a desk-" + "a" * 20, "a desk-" + "a" * 20),
    "ghp": ("ghp_abcdefghijklmnop", f"ghp_{HIDDEN}"),
    "gho": ("gho_abcdefghijklmnop", f"gho_{HIDDEN}"),
    "slack": ("xoxb-123-456-abcDEF", f"xoxb-{HIDDEN}"),
    "slack's kin": ("xoxp-123-456-abcDEF", f"xoxp-{HIDDEN}"),
    "aws": ("id AKIAIOSFODNN7EXAMPLE.", f"id AKIA{HIDDEN}."),
    "jwt": (f"it is {JWT}", f"it is eyJ{HIDDEN}"),
    "pem": ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----",
            f"-----BEGIN RSA PRIVATE KEY-----{HIDDEN}-----END RSA PRIVATE KEY-----"),
    "field": ("api_key=abcd, user=bob", f"api_key={HIDDEN}, user=bob"),
    "field, too short": ("api_key=abc", "api_key=abc"),
    "field in JSON": ('{"password": "hun\\"ter2", "user": "bob"}', f'{{"password": "{HIDDEN}", "user": "bob"}}'),
    "field in JSON in JSON": ('{\\"secret\\": \\"abcd\\", \\"n\\": 1}', '{\\"secret\\": \\"[REDACTED]\\", \\"n\\": 1}'),
    "field in a repr": ("{'client_secret': 'ab cd'}", f"{{'client_secret': '{HIDDEN}'}}"),
    "field in a query": ("https://x/?access_token=abcd&page=2", f"https://x/?access_token={HIDDEN}&page=2"),
    "field in the environment": ("PGPASSWORD=hunter2 psql", f"PGPASSWORD={HIDDEN} psql"),
    "field as an option": ("login --password hunter2 --user bob", f"login --password {HIDDEN} --user bob"),
    "field in XML": ("<password>hunter2</password>", f"<password>{HIDDEN}</password>"),
    "key within a field": ("OPENAI_API_KEY=sk-abcdefghijklmnopqrst", f"OPENAI_API_KEY=sk-{HIDDEN}"),
    "counts": ("max_tokens: 10000, total tokens = 4567", "max_tokens: 10000, total tokens = 4567"),
    "pgp": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nxcL\n-----END PGP PRIVATE KEY BLOCK-----",
            f"-----BEGIN PGP PRIVATE KEY BLOCK-----{HIDDEN}-----END PGP PRIVATE KEY BLOCK-----"),
    "url with a token alone": (f"https://{LONG}@git.example.com/x", f"https://{HIDDEN}@git.example.com/x"),
    "url in a query": ("?to=postgres%3A%2F%2Fbob%3Ahunter2%40db%2Fx", f"?to=postgres%3A%2F%2Fbob%3A{HIDDEN}%40db%2Fx"),
    "signed url": (f"https://x/c?sv=2022&sig={LONG}%3D&p=1", f"https://x/c?sv=2022&sig={HIDDEN}&p=1"),
    "address to post to": (f"https://hooks.slack.com/services/{LONG}", f"https://hooks.slack.com/services/{HIDDEN}"),
    "cookies": ("Cookie: sid=abc1; theme=dark\nHost: x", f"Cookie: {HIDDEN}\nHost: x"),
    "cookies as food": ("cookie: oats and honey",) * 2,
    "other schemes": ('Authorization: Digest username="bob", response="0f1e"\nHost: x',
                      f"Authorization: Digest {HIDDEN}\nHost: x"),
    "user of curl": ("curl -u bob:hunter2 https://x", f"curl -u bob:{HIDDEN} https://x"),
    "field called pass": ("DB_PASS=hunter2 make", f"DB_PASS={HIDDEN} make"),
    "tests that pass": ("PASS: test_one, pass: 12 of 12",) * 2,
    "field in bold": ("**Password:** hunter2", f"**Password:** {HIDDEN}"),
    "field as code": ("`password`: `hunter2`", f"`password`: {HIDDEN}"),
    "field in HTML": ("&quot;password&quot;:&quot;hunter2&quot;", f"&quot;password&quot;:&quot;{HIDDEN}&quot;"),
    "field in an escaped JSON": ('{\\u0022password\\u0022:\\u0022hunter2\\u0022}',
                                 f'{{\\u0022password\\u0022:\\u0022{HIDDEN}\\u0022}}'),
    "field by name and value": ('{"name": "DB_PASSWORD", "value": "hunter2"}',
                                f'{{"name": "DB_PASSWORD", "value": "{HIDDEN}"}}'),
    "field in a pair": ("[('X-Api-Key', 'hunter2'), ('Accept', 'json')]",
                        f"[('X-Api-Key', '{HIDDEN}'), ('Accept', 'json')]"),
    "field with a number": ("API_KEY_2=hunter2", f"API_KEY_2={HIDDEN}"),
    "field with a full-width colon": ("password\uff1ahunter2", f"password\uff1a{HIDDEN}"),
    "said": ("My password is hunter2, please", f"My password is {HIDDEN}, please"),
    "said of none": ("The password is required, the token is invalid.",) * 2,
    "prose": ("The key to the door is under the mat, a token of trust.",) * 2,
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS)
def test_text_keeps_what_says_which_secret_it_was(text: str, expected: str) -> None:
    assert REDACTOR.text(text) == expected


HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
VENDORS = [
    "whsec_", "hf_", "gsk_", "npm_", "r8_", "shpat_", "dckr_pat_", "lin_api_", "ntn_", "figd_", "glsa_", "sntrys_",
    "dop_v1_", "xai-", "pplx-", "nvapi-", "tvly-", "pypi-", "PMAK-", "GOCSPX-", "gldt-", "glrt-", "sq0csp-", "pul-",
    "ya29.", "hvs.",
]  # fmt: skip


@pytest.mark.parametrize("begin", VENDORS)
def test_key_of_a_vendor_is_known_by_how_it_begins(begin: str) -> None:
    assert REDACTOR.text(f"with {begin}{LONG}.") == f"with {begin}{HIDDEN}" + ("" if begin[-1] == "." else ".")
    assert REDACTOR.value({"a": [f"{begin}{LONG}"]}) == {"a": [f"{begin}{HIDDEN}"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SG.{LONG[:22]}.{LONG}", f"SG.{HIDDEN}"),
        (f"key-{HEX}", f"key-{HIDDEN}"),
        (f"/bot123456789:AA{LONG}/send", f"/bot123456789:{HIDDEN}/send"),
    ],
)
def test_key_of_a_vendor_is_known_by_its_shape(text: str, expected: str) -> None:
    assert REDACTOR.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"run_{HEX[:24]} called call_{HEX[:12]} on thread_{HEX[:24]}",
        "https://example.org/a-rather-long-path-of-many-words/and_another_with_under_scores?page=12345678901234567890",
        f"commit {HEX}, sha256:{HEX}{HEX}",
        "550e8400-e29b-41d4-a716-446655440000",
        "self.assertEqual(tokens.count, key_of_the_map(value_of_some_length))",
        "2026-11-30T14:53:02.381+00:00 INFO a.module.of.some.length.and.more started",
        "monkey=banana, keys: 12, keyboard: qwerty, passenger: Ann, compass=north, bypass: yes",
    ],
)
def test_what_is_long_but_no_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


VALUES = {
    "pass": ({"user": "bob", "pass": "hunter2"}, {"user": "bob", "pass": HIDDEN}),
    "cookies": ({"cookies": {"sid": "abcd"}}, {"cookies": {"sid": HIDDEN}}),
    "value of a secret": ({"SecretString": "abcd", "api_key_2": "abcd"}, {"SecretString": HIDDEN, "api_key_2": HIDDEN}),
    "field": ({"password": "hunter2", "n": 1}, {"password": HIDDEN, "n": 1}),
    "nested": ({"a": [{"apiKey": "abcd"}]}, {"a": [{"apiKey": HIDDEN}]}),
    "all below": ({"credentials": {"user": "bobby", "pin": 1234}}, {"credentials": {"user": HIDDEN, "pin": HIDDEN}}),
    "number": ({"token": 12345}, {"token": HIDDEN}),
    "counts": ({"max_tokens": 12345, "tokens": 12345}, {"max_tokens": 12345, "tokens": 12345}),
    "short": ({"password": "abc"}, {"password": "abc"}),
    "header as a pair": ([["X-Api-Key", "abcd"]], [["X-Api-Key", HIDDEN]]),
    "header as name and value": (
        {"name": "authorization", "value": "abcd"},
        {"name": "authorization", "value": HIDDEN},
    ),
    "scheme": ({"Authorization": "Bearer abcdefgh"}, {"Authorization": f"Bearer {HIDDEN}"}),
    "secret as a name": ({"sk-" + "a" * 20: 1}, {f"sk-{HIDDEN}": 1}),
    "bytes": ({"b": b"password=hunter2"}, {"b": f"password={HIDDEN}"}),
    "binary": ({"b": b"\xff\xfe\x00"}, {"b": "<3 bytes>"}),
    "not a number": ({"x": float("nan")}, {"x": None}),
    "set": ({"x": {1}}, {"x": [1]}),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_value_loses_what_its_fields_say_is_secret(value: Any, expected: Any) -> None:
    assert REDACTOR.value(value) == expected
    assert REDACTOR.value(expected) == expected


PIECES = st.sampled_from(
    [*[text for text, _ in TEXTS.values()], ":", '"', "\\", " ", "=", HIDDEN, "token", "Bearer ", "@"]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=8))
@settings(max_examples=300, deadline=None)
def test_redacting_twice_changes_nothing(pieces: list[str]) -> None:
    once = REDACTOR.text("".join(pieces))
    assert REDACTOR.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "postgres://bob:hunter/u?mail=a@b.c@db/x",
        f"AKIAIOSFODNN7EXAMPLEglsa_{LONG}",
        f"ghp_abcdef:AKIAIOSFODNN7EXAMPLEsk-{LONG}",
    ],
)
def test_secrets_that_touch_are_the_same_the_second_time(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


NAMES = st.sampled_from(["token", "a", "key", "password", "name", "value"])
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), PIECES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)


@given(DATA)
@settings(max_examples=200, deadline=None)
def test_values_redacted_twice_are_the_same(value: Any) -> None:
    once = REDACTOR.value(value)
    assert REDACTOR.value(once) == once


def test_value_is_a_copy() -> None:
    value = {"a": [1, {"b": "c"}]}
    copy = REDACTOR.value(value)
    copy["a"][1]["b"] = "changed"
    assert value == {"a": [1, {"b": "c"}]}


def test_text_is_redacted_first_and_cut_then() -> None:
    text = "x" * (LIMIT - 10) + " sk-" + "a" * 60 + "y" * 9000
    cut = REDACTOR.cut(text)
    assert (len(cut), cut[-1]) == (LIMIT + 1, "…")
    assert "aaa" not in cut
    assert REDACTOR.cut(cut) == cut


def test_exactly_as_much_as_is_kept_is_not_cut() -> None:
    assert REDACTOR.cut("x" * LIMIT) == "x" * LIMIT


def test_long_structure_becomes_its_cut_text() -> None:
    value = {"password": "hunter2", "rows": ["row"] * 20_000}
    cut = REDACTOR.value(value)
    assert (len(cut), "hunter2" in cut) == (LIMIT + 1, False)


def test_value_that_contains_itself_or_fails_is_told_by_name() -> None:
    class Fails:
        def __str__(self) -> str:
            raise RuntimeError("no")

    loop: list[Any] = []
    loop.append(loop)
    assert REDACTOR.value({"x": Fails()}) == "<dict>"
    assert isinstance(REDACTOR.value(loop), str)


HOSTILE = [
    "A",
    "://a:",
    "token:",
    'password="',
    "sk-",
    "eyJa",
    "eyJaaaa.",
    "-eyJ",
    "--token",
    "--",
    "token>",
    "bearer ",
]
HOSTILE += ["curl ", "curl -u a", "cookie:a=", "authorization: x ", "%3a%2f%2fa%3a", "('token', '", "password is a1"]
HOSTILE += [
    "SG.aaaaaaaaaa.",
    "&key=a",
    "12345678:AA",
    "_pass=",
    "key-",
    "hf_aaaa",
    "/api/webhooks/1/",
    "&quot;token",
    "* token:",
]
HOSTILE += ["-----BEGIN PRIVATE KEY-----", "token=a,", '"', "\\", "basic aaaa"]


@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (2 * LIMIT // len(piece))
    started = time.process_time()
    REDACTOR.cut(text)
    assert time.process_time() - started < 1.0


def test_redact_takes_names_patterns_pairs_and_functions() -> None:
    own = Redactor(
        ["iban", r"\bACME-\d+\b", re.compile("(?i)falcon"), (r"(\d{3})-\d{4}", r"\1-…"), lambda text: text[::1]]
    )
    text = 'iban: 7, {"customer_iban": "DE1"} ACME-12 Falcon 555-1234'
    assert own.text(text) == f'iban: {HIDDEN}, {{"customer_iban": "{HIDDEN}"}} {HIDDEN} {HIDDEN} 555-…'
    assert own.value({"customer-iban": 7}) == {"customer-iban": HIDDEN}
    assert own.text("sk-" + "a" * 16) == f"sk-{HIDDEN}"


@pytest.mark.parametrize("redact", [["(["], [3], "iban", [("a", "b", "c")], [("(a)", r"\2")]], ids=repr)
def test_redact_that_cannot_work_is_refused_when_the_agent_is_built(redact: Any) -> None:
    with pytest.raises(ConfigurationError, match="redact"):
        Agent(ScriptedModel(), redact=redact)


def test_function_that_fails_hides_everything_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    own = Redactor([lambda text: 1 / 0])  # type: ignore[list-item, return-value]  # it fails before it could return
    with caplog.at_level(logging.ERROR):
        assert [own.text("a"), own.text("b")] == [HIDDEN, HIDDEN]
    assert len(caplog.records) == 1
