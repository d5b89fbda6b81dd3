"""Settings: read once from the environment, refused with one line that names them."""

from dataclasses import fields
from pathlib import Path

import pytest
from requests.certs import where as certifi_bundle

from router.auth import parse_keys
from router.request.routes import CONFIGURABLE
from router.settings.declarations import DnsServer, SettingError, Settings, load, name_of, unknown_names
from router.settings.markdown_table import reference

ENGINE = "http://127.0.0.1:30000"


def test_only_engines_are_required() -> None:
    """With engines alone every other setting has its default."""
    assert load({"ROUTER_ENGINES": ENGINE}) == Settings(engines=(ENGINE,))


def test_every_setting_is_read() -> None:
    """Each setting is read from its variable and has its type."""
    own = load(
        {
            "ROUTER_ENGINES": "http://a/v1/, https://[::1]:1/team/v1  models=a|org/b:c, dns://e.example:1 models=d",
            "ROUTER_PROFILE": "profile.json",
            "ROUTER_MODEL_ID": "a, b,,a",
            "ROUTER_ROUTES": "/v1/models,/v1/chat/completions",
            "ROUTER_POLICY": "prefix_affinity",
            "ROUTER_SESSION_HEADER": "X-Conversation",
            "ROUTER_ENGINE_API_KEY": "k",
            "ROUTER_ENGINE_CA": certifi_bundle(),
            "ROUTER_API_KEYS": "a=0123456789abcdef",
            "ROUTER_UPSTREAM_CONNECT_TIMEOUT_SECONDS": "1.5",
            "ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "1000",
            "ROUTER_CLIENT_BODY_TIMEOUT_SECONDS": "7",
            "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "3",
            "ROUTER_DNS_REFRESH_INTERVAL_SECONDS": "2",
            "ROUTER_DNS_SERVER": "[::1]:5353",
            "ROUTER_DRAIN_SECONDS": "0",
            "ROUTER_GRACEFUL_TIMEOUT_SECONDS": "0",
            "ROUTER_MAX_IN_FLIGHT": "4",
            "ROUTER_ACCESS_LOG": "json",
        }
    )
    assert own == Settings(
        engines=("http://a", "https://[::1]:1/team models=a|org/b:c", "dns://e.example:1 models=d"),
        profile=Path("profile.json"),
        model_id=("a", "b"),
        routes=("/v1/chat/completions", "/v1/models"),
        policy="prefix_affinity",
        session_header="X-Conversation",
        engine_api_key="k",
        engine_ca=Path(certifi_bundle()),
        api_keys=parse_keys("a=0123456789abcdef"),
        upstream_connect_timeout_seconds=1.5,
        upstream_response_timeout_seconds=1000.0,
        client_body_timeout_seconds=7.0,
        health_check_interval_seconds=3.0,
        dns_refresh_interval_seconds=2.0,
        dns_server=DnsServer("::1", 5353),
        drain_seconds=0.0,
        graceful_timeout_seconds=0.0,
        max_in_flight=4,
        access_log="json",
    )


@pytest.mark.parametrize("name", [name_of(item) for item in fields(Settings) if item.name != "engines"])
def test_an_empty_variable_is_not_set(name: str) -> None:
    """A variable that is empty or blank counts as not set."""
    assert load({"ROUTER_ENGINES": ENGINE, name: "  "}) == Settings(engines=(ENGINE,))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINES", ""),
        ("ENGINES", ","),
        ("ENGINES", "127.0.0.1:30000"),
        ("ENGINES", "ftp://a"),
        ("ENGINES", "http://"),
        ("ENGINES", "http://a:port"),
        ("ENGINES", "http://a:70000"),
        ("ENGINES", "http://[::1"),
        ("ENGINES", "http://a b"),
        ("ENGINES", "http://a?x=1"),
        ("ENGINES", "http://a#x"),
        ("ENGINES", "http://user:secret@a"),
        ("ENGINES", f"{ENGINE},{ENGINE}/v1"),
        ("ROUTES", "/v1/chat/completions,/v1/none"),
        ("ROUTES", "v1/models"),
        ("UPSTREAM_RESPONSE_TIMEOUT_SECONDS", "0"),
        ("UPSTREAM_CONNECT_TIMEOUT_SECONDS", "-1"),
        ("CLIENT_BODY_TIMEOUT_SECONDS", "nan"),
        ("HEALTH_CHECK_INTERVAL_SECONDS", "inf"),
        ("DRAIN_SECONDS", "-0.1"),
        ("DRAIN_SECONDS", "soon"),
        ("ENGINE_CA", "/nonexistent.pem"),
        ("ENGINE_CA", __file__),
        ("ENGINE_API_KEY", "secret\n2"),
        ("API_KEYS", ","),
        ("API_KEYS", "secret"),
        ("API_KEYS", "a=secret"),
        ("API_KEYS", "a=secret-of-sixteen,b=secret-of-sixteen"),
        ("API_KEYS_FILE", "/nonexistent"),
        ("MAX_IN_FLIGHT", "0"),
        ("ACCESS_LOG", "yes"),
        ("ACCESS_LOG", "JSON"),
        ("MAX_IN_FLIGHT", "1.0"),
        ("MAX_IN_FLIGHT", "\u0661"),
        ("MAX_IN_FLIGHT", "10001"),
        ("MAX_IN_FLIGHT", "9" * 5000),
        ("UPSTREAM_CONNECT_TIMEOUT_SECONDS", "1e10"),
        ("UPSTREAM_RESPONSE_TIMEOUT_SECONDS", "2592001"),
        ("DRAIN_SECONDS", "1_0"),
        ("CLIENT_BODY_TIMEOUT_SECONDS", "\u0661"),
        ("ROUTES", ","),
        ("ENGINES", "http://a..b"),
        *(("ENGINES", f"http://a {rest}") for rest in ("a", "models=", "models=a|", "models=a b", "models = a")),
        ("ENGINES", "http://a models=a,b"),
        ("ENGINES", "http://a models=a,http://a"),
        ("ENGINES", "http://."),
        ("ENGINES", "http://%:80"),
        *(("ENGINES", f"dns://{name}") for name in ("e", "e:0", "e:65536", ":1", "e:1/v1", "u@e:1", "e..e:1")),
        ("ENGINES", "dns://[::1]:1"),
        ("ENGINES", "dns://10.0.0.1:1"),
        ("ENGINES", f"dns://{'a.' * 130}:1"),
        ("DNS_REFRESH_INTERVAL_SECONDS", "0"),
        *(("DNS_SERVER", server) for server in ("ns.example", "10.0.0.1:", "10.0.0.1:0", "::1:53:", "[::1]")),
        ("POLICY", "secret"),
        ("POLICY", "ROUND_ROBIN"),
        ("SESSION_HEADER", "secret header"),
        *(("RESPONSE_HEADERS", name) for name in ("a b", "a:", "*-id", "**", "x-worker_id")),
        *(("RESPONSE_HEADERS", f"x-kept, {name}") for name in ("Set-Cookie", "date", "X-Router-Code", "te")),
        ("SHOW_MAX_MODEL_LEN", "yes"),
        ("SESSION_HEADER", "X_Secret"),
    ],
)
def test_what_cannot_be_used_is_rejected_in_one_line(name: str, value: str) -> None:
    """A setting that makes no sense is an error that names it and shows its value, unless that may be a secret."""
    with pytest.raises(SettingError) as raised:
        load({"ROUTER_ENGINES": ENGINE, f"ROUTER_{name}": value})
    message = str(raised.value)
    assert message.startswith(f"ROUTER_{name} ")
    assert "\n" not in message
    if value:
        hides = name in {"ENGINE_API_KEY", "API_KEYS"}
        assert message.startswith(f"ROUTER_{name} cannot be used: found ")
        assert ("found a value that may be a secret and is not shown, expected" in message) is hides


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINES", "http://user:secret@a"),
        ("ENGINES", "http://user:a@secret@a,http://b"),
        ("ENGINES", "http://a?token=secret,http://a"),
        ("ENGINES", "http://a/secret/secret@b"),
        ("API_KEYS_FILE", "secret-key-in-the-wrong-place"),
        ("API_KEYS_FILE", "a=secret/key"),
        ("API_KEYS_FILE", "secret" * 1000),
        ("API_KEYS", "a=secret, b=secret"),
        ("ENGINE_API_KEY", "secret\u00e9"),
    ],
)
def test_no_secret_is_shown(name: str, value: str) -> None:
    """What a bad value holds of credentials, tokens and keys is in no message."""
    with pytest.raises(SettingError, match=f"ROUTER_{name} cannot be used: found ") as raised:
        load({"ROUTER_ENGINES": ENGINE, f"ROUTER_{name}": value})
    assert "secret" not in str(raised.value).replace("may be a secret and", "")


@pytest.mark.parametrize(
    ("value", "server"),
    [
        ("10.96.0.10", DnsServer("10.96.0.10", 53)),
        ("10.96.0.10:5353", DnsServer("10.96.0.10", 5353)),
        ("fd00::10", DnsServer("fd00::10", 53)),
        ("[fd00::10]:5353", DnsServer("fd00::10", 5353)),
    ],
)
def test_a_name_server_is_an_address_with_or_without_a_port(value: str, server: DnsServer) -> None:
    """A name server is given by its address, an IPv6 one in brackets where a port follows."""
    assert load({"ROUTER_ENGINES": ENGINE, "ROUTER_DNS_SERVER": value}).dns_server == server


def test_unknown_names_are_told_with_the_nearest() -> None:
    """Only ROUTER_* names that are no setting are told, with the nearest that is."""
    environment = {"ROUTER_ENGINES": ENGINE, "ROUTER_PROFIL": "x", "PATH": "/", "router_engines": "x"}
    assert unknown_names(environment) == [
        "ROUTER_PROFIL is not a setting and has no effect; did you mean ROUTER_PROFILE?"
    ]


def test_the_reference_lists_every_setting() -> None:
    """The table that the README holds has one row per setting."""
    rows = reference().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [name_of(item) for item in fields(Settings)]


def test_routes_default_to_all() -> None:
    """Without ROUTER_ROUTES every route exists."""
    assert load({"ROUTER_ENGINES": ENGINE}).routes == CONFIGURABLE
