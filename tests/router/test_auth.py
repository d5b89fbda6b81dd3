"""API keys: read strictly, kept as digests, told by name, and read anew when their file changes."""

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from router import auth, lifecycle
from router.app import create_app, open_services
from router.artifact.format import freeze
from router.auth import MAX_FILE_BYTES, ApiKey, ApiKeys, parse_keys, read_keys
from router.contract.errors import ApiError
from router.contract.schema.model import Contract
from router.request.context import RequestContext
from router.settings.declarations import SettingError, Settings, load

KEY = "a-key-of-16-char"
OTHER = "another-key=#with=signs"
ENGINE = "http://127.0.0.1:30000"


def _key(name: str, key: str) -> ApiKey:
    return ApiKey(name, hashlib.sha256(key.encode()).digest())


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys whose file is looked at on every request."""
    monkeypatch.setattr(auth, "CHECK_INTERVAL_SECONDS", 0.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one key."""
    path = tmp_path / "keys"
    path.write_text(f"team={KEY}\n")
    return path


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def _name_of(keys: ApiKeys, key: str) -> str | None:
    try:
        return keys.authenticate(f"Bearer {key}", "")
    except ApiError:
        return None


def test_keys_stand_as_they_are_or_hashed() -> None:
    """A key and its SHA-256, in digits of either case, are the same entry."""
    expected = (_key("a", KEY), _key("b.c-d_1", OTHER))
    assert parse_keys(f"a={KEY}, b.c-d_1={OTHER},") == expected
    assert parse_keys(f"a=sha256:{_hash(KEY)},b.c-d_1=sha256:{_hash(OTHER).upper()}") == expected


def test_a_name_may_have_several_keys() -> None:
    """Old and new key stand side by side under one name; the same entry twice is one."""
    assert parse_keys(f"a={KEY},a={OTHER},a=sha256:{_hash(KEY)}") == (_key("a", KEY), _key("a", OTHER))


def test_a_file_has_one_key_a_line(tmp_path: Path) -> None:
    """Comments, blank lines, Windows line ends, a byte order mark and a missing last line end are fine."""
    path = tmp_path / "keys"
    path.write_bytes(f"\ufeff# caf\u00e9\r\n\r\na={KEY}\r\n  # more, with a comma\n \tb={OTHER}".encode())
    assert read_keys(path).keys == (_key("a", KEY), _key("b", OTHER))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (KEY, "NAME=KEY or NAME=sha256:HEX in {}"),
        (f"={KEY}", "NAME=KEY or NAME=sha256:HEX in {}"),
        (f"{'n' * 65}={KEY}", "NAME=KEY or NAME=sha256:HEX in {}"),
        (f"n\u00e9={KEY}", "NAME=KEY or NAME=sha256:HEX in {}"),
        (f"n ={KEY}", "NAME=KEY or NAME=sha256:HEX in {}"),
        ("n=", "a key of at least 16 printable ASCII characters without spaces and commas in {}"),
        (f"n={KEY[:15]}", "a key of at least 16 printable ASCII characters"),
        (f"n={KEY}\u00e9", "a key of at least 16 printable ASCII characters"),
        (f"n={KEY} {KEY}", "a key of at least 16 printable ASCII characters"),
        (f"n={KEY}\x7f", "a key of at least 16 printable ASCII characters"),
        (f"n=sha256:{'0' * 63}", "the 64 hexadecimal digits of a SHA-256 after sha256: in {}"),
        (f"n=sha256:{'0' * 63}g", "the 64 hexadecimal digits of a SHA-256 after sha256: in {}"),
        (f"n={OTHER}", "each key under one name, but {} has the key of "),
        (f"n=sha256:{_hash(OTHER)}", "each key under one name, but {} has the key of "),
    ],
)
def test_a_wrong_entry_is_told_by_its_place(entry: str, expected: str, tmp_path: Path) -> None:
    """What is wrong with an entry is told with its place and what is expected, and no part of it is shown."""
    path = tmp_path / "keys"
    path.write_text(f"first={OTHER}\n#\n{entry}\n", encoding="utf-8")
    for place, read in (
        ("line 3", lambda: read_keys(path)),
        ("entry 2", lambda: parse_keys(f"first={OTHER},{entry}")),
    ):
        with pytest.raises(ValueError, match=place) as raised:
            read()
        message = str(raised.value)
        assert message.startswith(expected.format(place))
        assert not any(part in message for part in (KEY[:8], OTHER[:8], "first", "\n"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: None, "a readable file (No such file or directory)"),
        (lambda path: path.mkdir(), "a regular file"),
        (os.mkfifo, "a regular file"),
        (lambda path: path.write_bytes(b""), "at least one entry"),
        (lambda path: path.write_bytes(b"# none yet\n\n"), "at least one entry"),
        (lambda path: path.write_bytes(b"a=\xff"), "a file in UTF-8"),
        (lambda path: path.write_bytes(b"#" * (MAX_FILE_BYTES + 1)), "a file of at most"),
    ],
    ids=["missing", "folder", "pipe", "empty", "comments", "not UTF-8", "too large"],
)
def test_a_file_without_keys_stops_the_start(make: Callable[[Path], None], expected: str, tmp_path: Path) -> None:
    """A file that is none, or holds no key, is an error of its setting that names the file."""
    make(tmp_path / "keys")
    with pytest.raises(SettingError) as raised:
        load({"ROUTER_ENGINES": ENGINE, "ROUTER_API_KEYS_FILE": str(tmp_path / "keys")})
    found = f'found "{tmp_path / "keys"}", expected {expected}'
    assert str(raised.value).startswith(f"ROUTER_API_KEYS_FILE cannot be used: {found}")


def test_keys_come_from_one_place(file: Path) -> None:
    """Keys in the environment and a file of keys at once are an error: which of them holds is anybody's guess."""
    with pytest.raises(SettingError, match="found ROUTER_API_KEYS_FILE beside it"):
        load({"ROUTER_ENGINES": ENGINE, "ROUTER_API_KEYS": f"a={OTHER}", "ROUTER_API_KEYS_FILE": str(file)})


def test_settings_do_not_show_keys(file: Path) -> None:
    """Neither a key nor its digest stands in what a log or a traceback would show of the settings."""
    for name, value in (("ROUTER_API_KEYS", f"team={KEY}"), ("ROUTER_API_KEYS_FILE", str(file))):
        shown = repr(load({"ROUTER_ENGINES": ENGINE, name: value}))
        assert "team" in shown
        assert KEY not in shown
        assert repr(hashlib.sha256(KEY.encode()).digest()) not in shown


def _values(headers: dict[str, str]) -> tuple[str, str]:
    return headers.get("Authorization", ""), headers.get("X-API-Key", "")


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Authorization": f"Bearer {KEY}"}, "a"),
        ({"Authorization": f"bEARER   {KEY} "}, "a"),
        ({"X-API-Key": OTHER}, "b"),
        ({"Authorization": f"Bearer {KEY}", "X-API-Key": KEY}, "a"),
        ({"Authorization": "", "X-API-Key": KEY}, "a"),
    ],
    ids=str,
)
def test_a_request_is_known_by_the_key_that_it_shows(headers: dict[str, str], name: str) -> None:
    """One known key, in one header or the same in both, gives its name."""
    assert ApiKeys(parse_keys(f"a={KEY},b={OTHER}"), None).authenticate(*_values(headers)) == name


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Authorization": f"Bearer {KEY}", "X-API-Key": OTHER}, "Two different"),
        ({"Authorization": f"Bearer {KEY}", "X-API-Key": "x"}, "Two different"),
        ({"Authorization": "Basic eA==", "X-API-Key": KEY}, "Two different"),
        ({"Authorization": "Bearer", "X-API-Key": KEY}, "Two different"),
        ({}, "required here"),
        ({"Authorization": " ", "X-API-Key": ""}, "required here"),
        ({"Authorization": KEY + "x"}, "not known"),
        ({"Authorization": f"Basic {KEY}"}, "not known"),
        ({"Authorization": f"Bearer{KEY}"}, "not known"),
        ({"Authorization": f"Bearer {KEY},Bearer {OTHER}"}, "not known"),
        ({"X-API-Key": f"sha256:{_hash(KEY)}"}, "not known"),
        ({"X-API-Key": _hash(KEY)}, "not known"),
        ({"X-API-Key": KEY.upper()}, "not known"),
        ({"X-API-Key": f"{KEY}\u00e9\u20ac"}, "not known"),
    ],
    ids=str,
)
def test_all_else_is_refused_with_what_to_send(headers: dict[str, str], said: str) -> None:
    """No key, an unknown one, or two that differ are a 401 that says what to send."""
    with pytest.raises(ApiError, match=said) as raised:
        ApiKeys(parse_keys(f"a={KEY},b={OTHER}"), None).authenticate(*_values(headers))
    assert (raised.value.code, raised.value.status) == ("invalid_api_key", 401)
    assert "Authorization: Bearer KEY or as X-API-Key: KEY" in raised.value.message


def test_without_keys_nobody_is_asked() -> None:
    """A router without keys asks for none."""
    assert not ApiKeys((), None).are_required()


@pytest.mark.usefixtures("always_looking")
def test_a_changed_file_is_read_anew(file: Path) -> None:
    """A file that is replaced, written over, or reached through a link that is turned, counts from the next look on."""
    keys = ApiKeys((), read_keys(file))
    assert _name_of(keys, KEY) == "team"
    _replace(file, f"team={KEY}\nteam={OTHER}\n")
    assert (_name_of(keys, KEY), _name_of(keys, OTHER)) == ("team", "team")
    file.write_text(f"new-name={OTHER}\n")
    assert (_name_of(keys, KEY), _name_of(keys, OTHER)) == (None, "new-name")


@pytest.mark.usefixtures("always_looking")
def test_a_turned_link_is_a_change(tmp_path: Path) -> None:
    """The keys of a Kubernetes secret, which turns a link to another folder, are read anew."""
    for version, key in (("v1", KEY), ("v2", OTHER)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "keys").write_text(f"{version}={key}\n")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "keys").symlink_to("data/keys")
    keys = ApiKeys((), read_keys(tmp_path / "keys"))
    assert _name_of(keys, KEY) == "v1"
    (tmp_path / "turned").symlink_to("v2")
    (tmp_path / "turned").replace(tmp_path / "data")
    assert (_name_of(keys, KEY), _name_of(keys, OTHER)) == (None, "v2")


@pytest.mark.usefixtures("always_looking")
@pytest.mark.parametrize("broken", [None, "", "team=short\n"], ids=["missing", "empty", "wrong"])
def test_a_broken_file_changes_nothing(file: Path, broken: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """While the file is broken the last good keys stay; it is logged once, and told until it is good again."""
    keys = ApiKeys((), read_keys(file))
    good = file.with_name("good")
    file.rename(good)
    if broken is not None:
        file.write_text(broken)
    with caplog.at_level(logging.INFO, "router"):
        assert [_name_of(keys, KEY) for _ in range(3)] == ["team"] * 3
        assert keys.problem() is not None
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert str(file.parent) not in caplog.text
        good.replace(file)
        assert keys.problem() is None
    assert _name_of(keys, KEY) == "team"
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


@pytest.mark.usefixtures("always_looking")
@pytest.mark.parametrize("broken", [None, "team=short\n"], ids=["missing", "wrong"])
def test_a_key_that_was_taken_out_comes_back_nowhere(file: Path, broken: str | None) -> None:
    """What one process read last and found good counts, once the file is broken, for those too that missed it."""
    reader, sleeper = (ApiKeys((), read_keys(file)) for _ in range(2))
    _replace(file, f"team={OTHER}\n")
    assert _name_of(reader, OTHER) == "team"
    file.unlink()
    if broken is not None:
        file.write_text(broken)
    for keys in (reader, sleeper):
        assert (_name_of(keys, KEY), _name_of(keys, OTHER)) == (None, "team")
        assert keys.problem() is not None


@pytest.mark.parametrize("reader", ["worker", "master"])
def test_the_master_knows_the_last_good_keys(file: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers to come begin with the newest good keys, whoever read them, though the file is broken by then."""
    own = load({"ROUTER_ENGINES": ENGINE, "ROUTER_API_KEYS_FILE": str(file)})
    monkeypatch.setattr(lifecycle._PreForkState, "settings", own)
    _replace(file, f"team={OTHER}\n")
    if reader == "worker":
        assert _name_of(ApiKeys((), own.api_keys_file), OTHER) == "team"
    else:
        lifecycle.reload_keys()
    file.write_text("team=short\n")
    lifecycle.reload_keys()
    keys = ApiKeys((), lifecycle.active_settings({}).api_keys_file)
    assert (_name_of(keys, KEY), _name_of(keys, OTHER)) == (None, "team")


def test_the_file_is_not_looked_at_for_every_request(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, which are a second apart at least, requests go by the keys in force."""
    clock = [100.0]
    monkeypatch.setattr(auth.time, "monotonic", lambda: clock[0])
    keys = ApiKeys((), read_keys(file))
    assert _name_of(keys, KEY) == "team"
    file.unlink()
    clock[0] += 0.99
    assert keys.problem() is None
    clock[0] += 0.01
    assert keys.problem() is not None


def test_the_exchange_learns_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a request tells whose key it showed, and a request that is refused tells nobody's."""
    services = open_services(
        Settings(engines=(ENGINE,), api_keys=parse_keys(f"team={KEY}")), freeze("x", Contract(), ())
    )
    monkeypatch.setattr(services.discovery, "start", lambda: None)
    client = create_app(services).test_client()
    for key, name in ((KEY, "team"), (OTHER, None)):
        context = RequestContext(request_id="1")
        client.get("/v1/models", headers={"X-API-Key": key}, environ_overrides={"router.request.context": context})
        assert context.key_name == name
