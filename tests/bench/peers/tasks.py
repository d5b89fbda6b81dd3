"""What a subject is: where it comes from, how it is started, and for which measures."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers.bodies import MODEL
from tests.bench.peers.cache import Cache

Words = list[str | Path]


class Certificate(NamedTuple):
    """The files of a certificate that is valid for nothing but this bench."""

    chain: Path
    key: Path


class Task(NamedTuple):
    """How a subject is to be run: where it listens, in front of which engine, how wide, and where it may write."""

    port: int
    spare_port: int
    engine: str
    workers: int
    folder: Path
    most_streams: int
    certificate: Certificate | None = None
    """With one it speaks TLS, and nothing else."""

    @property
    def address(self) -> str:
        """The engine's host and port."""
        return self.engine.removeprefix("http://")


class Command(NamedTuple):
    """How it is started, and the headers and the model that it wants to see in each request."""

    words: Words
    environment: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    model: str = MODEL


class Installed(NamedTuple):
    """A subject that can be run."""

    version: str
    command: Callable[[Task], Command]
    speaks_tls: bool = False


class Subject(NamedTuple):
    """Something that is measured; `install` raises SetupError where it cannot be had."""

    name: str
    install: Callable[[Cache], Installed]
