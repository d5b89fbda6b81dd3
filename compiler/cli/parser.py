"""The arguments of `profilec`: every command with its options, help and examples, and the function that it runs."""

import argparse
import math
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from compiler.cli import examples

MAX_PORT: Final = 65535


def parser_of_profilec() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; `run` of what it parses names a module and a function."""
    parser = argparse.ArgumentParser(
        prog="profilec",
        description="Compile an API profile, one YAML file, into the artifact that the router enforces.",
        epilog=examples.OVERVIEW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the artifact format")
    parser.add_argument(
        "--print-completion", action=_Completion, choices=("bash", "zsh"), help="print the completion script of a shell"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    build = _command(commands, "build", "compile a profile into an artifact", ("compiler.cli.commands", "build"))
    _add_profile_options(build)
    build.add_argument(
        "--print-profile", action="store_true", help="write the merged profile as YAML instead, like `profilec print`"
    )
    build.add_argument(
        "--force", action="store_true", help="replace FILE even if it is another artifact or not an artifact"
    )
    build.set_defaults(origin=False, defaults=False)
    printing = _command(
        commands, "print", "show the merged profile as YAML", ("compiler.cli.commands", "print_profile")
    )
    _add_profile_options(printing)
    printing.add_argument(
        "--origin", action="store_true", help="add a comment to each value: where it was set and what it replaced"
    )
    printing.add_argument("--defaults", action="store_true", help="include every default")
    _add_check(commands)
    demo = _command(commands, "demo", "show a profile at work, with a real router", ("compiler.demo", "show"))
    _add_selection_options(demo)
    demo.add_argument("--engine", metavar="URL", help="use this engine instead of the mock engine")
    demo.add_argument(
        "--keep", action="store_true", help="keep the router running until Ctrl-C, and print a request to try"
    )
    _add_serve(commands)
    _add_explain(commands)
    _add_diff(commands)
    _add_verify(commands)
    _add_probe(commands)
    _command(commands, "presets", "list the presets", ("compiler.cli.lists", "presets"), epilog="")
    init = _command(commands, "init", "make a deployment folder", ("compiler.init", "init"), epilog="")
    init.add_argument("folder", metavar="DIR", help="the folder to make; it may exist, but without any of the files")
    init.add_argument(
        "--preset", default="openai-compatible", metavar="NAME", help="the preset to extend (default: %(default)s)"
    )
    schema = _command(
        commands,
        "schema",
        "write the JSON Schema of profiles, for editors",
        ("compiler.cli.lists", "schema"),
        epilog="",
    )
    _add_output_option(schema)
    return parser


def _add_serve(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    summary = "serve a contract: the router under gunicorn, in front of engines"
    serve = _command(
        commands, "serve", summary, ("compiler.serve", "run"), epilog=f"{examples.SERVE}\n{examples.SELECTION}"
    )
    _add_selection_options(serve)
    serve.add_argument(
        "--engine",
        action="append",
        metavar="URL",
        help="an engine, as http://127.0.0.1:30000 or dns://NAME:PORT; repeatable (default: ROUTER_ENGINES)",
    )
    serve.add_argument("--host", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    serve.add_argument(
        "--port", type=_port, metavar="PORT", help="the port to listen on; 0: a free one (default: 8000)"
    )
    serve.add_argument(
        "--workers", type=_positive, metavar="N", help="worker processes (default: WEB_CONCURRENCY, or 1)"
    )
    serve.add_argument(
        "--reload",
        action="store_true",
        help="compile and reload when a source changes; errors are printed, and the last valid contract stays active",
    )


def _add_explain(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    explain = _command(
        commands, "explain", "show what the router would do with a request, or with many", ("compiler.explain", "run")
    )
    explain.add_argument("request", metavar="REQUEST", help="a JSON file, or one of JSON Lines; - is standard input")
    _add_selection_options(explain)
    _add_override_options(explain)
    explain.add_argument(
        "--model", action="append", metavar="ID", help="a served model id; without it every name is served"
    )
    explain.add_argument(
        "--lines", action="store_true", help="read JSON Lines even if the first line is not a whole object"
    )
    explain.add_argument("--fail-on-rejected", action="store_true", help="exit with 1 if a request is rejected")
    explain.add_argument("--format", choices=("text", "json"), default="text", help="the output format (default: text)")


def _add_diff(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    summary = "list what changes for clients from one profile or artifact to another"
    diff = _command(commands, "diff", summary, ("compiler.diff", "show"), epilog=examples.DIFF)
    diff.add_argument(
        "a", metavar="A", help="the profile before: a preset, a path, an artifact ending in .json; - is standard input"
    )
    diff.add_argument("b", metavar="B", help="the profile after")
    diff.add_argument(
        "--model", action="append", metavar="ID", help="compare only the rules for requests for this model"
    )
    diff.add_argument("--observable", action="store_true", help="list only what a client can see in responses")
    diff.add_argument(
        "--ignore-messages", action="store_true", help="with --observable: ignore the messages of rejections"
    )
    diff.add_argument(
        "--fail-on",
        choices=("any", "tighter", "looser"),
        default="any",
        help="which changes end with exit code 1 (default: any)",
    )
    diff.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="the output format (default: text)"
    )
    _add_output_option(diff)


def _add_verify(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    summary = "check whether an endpoint keeps a contract, with requests derived from it"
    epilog = f"{examples.VERIFY}\n{examples.SELECTION}"
    verify = _command(commands, "verify", summary, ("compiler.verify", "run"), epilog=epilog)
    verify.add_argument("url", nargs="?", metavar="URL", help="the endpoint, as http://127.0.0.1:8000 or with its /v1")
    _add_selection_options(verify)
    _add_override_options(verify)
    verify.add_argument(
        "--model", action="append", metavar="ID", help="a model that the endpoint serves; aliases mean the first"
    )
    verify.add_argument(
        "--through-engine",
        action="store_true",
        help="start the router and a mock engine and verify these: then all of the contract can be observed",
    )
    verify.add_argument(
        "--only", nargs="+", action="extend", metavar="RULE", help="make the checks of these rules only"
    )
    verify.add_argument(
        "--seed", type=int, metavar="N", help="make the checks in another order, the same for each seed"
    )
    _add_cost_options(verify)
    _add_exchange_options(verify)
    verify.add_argument(
        "--format", choices=("text", "json", "junit", "html"), default="text", help="the output format (default: text)"
    )
    _add_output_option(verify)


def _add_probe(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    summary = "learn the contract of a live endpoint with requests, and write it as a profile"
    probe = _command(commands, "probe", summary, ("compiler.probe", "run"), epilog=examples.PROBE)
    probe.add_argument("url", metavar="URL", help="the endpoint, as http://127.0.0.1:8000 or with its /v1")
    probe.add_argument("--model", required=True, metavar="ID", help="the model to request")
    probe.add_argument("--only", nargs="+", action="extend", metavar="RULE", help="learn these rules only")
    _add_cost_options(probe)
    probe.set_defaults(max_requests=2000, max_body=32 * 1024 * 1024)
    _add_exchange_options(probe)
    _add_output_option(probe)
    probe.add_argument("--force", action="store_true", help="replace FILE even if it is not a draft of a probe")


def _add_exchange_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", metavar="FILE", help="record every exchange, and resume an interrupted run")
    parser.add_argument("--replay", metavar="FILE", help="send nothing: use the responses of a record")
    parser.add_argument(
        "--api-key-env", metavar="NAME", help="the environment variable that holds the key (default: PROFILEC_API_KEY)"
    )


def _add_cost_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-requests", type=_positive, metavar="N", help="send at most N different requests")
    parser.add_argument("--rps", type=_rate, metavar="R", help="send at most R requests a second")
    parser.add_argument(
        "--concurrency", type=_positive, default=4, metavar="N", help="requests at the same time (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout", type=_rate, default=120.0, metavar="S", help="the longest silence in seconds (default: 120)"
    )
    parser.add_argument(
        "--max-body",
        type=_positive,
        default=64 * 1024 * 1024,
        metavar="BYTES",
        help="test no body limits above this (default: %(default)s)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'found "{text}", expected a whole number from 1')
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f'found "{text}", expected a port from 0 to {MAX_PORT}')
    return int(text)


def _rate(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f'found "{text}", expected a number above 0')


def _command(
    commands: Any,  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    name: str,
    summary: str,
    run: tuple[str, str],
    epilog: str = examples.SELECTION,
) -> argparse.ArgumentParser:
    """Add a command; `run` names the module and the function that takes its arguments and returns its exit code."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{examples.EXAMPLES.get(name, '')}\n{epilog}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def _add_check(commands: Any) -> None:  # noqa: ANN401
    check = _command(
        commands,
        "check",
        "list all errors and warnings of profiles, and whether an artifact is up to date",
        ("compiler.check", "check"),
    )
    check.add_argument("sources", nargs="*", metavar="SOURCE", help="the profiles: presets or paths")
    _add_named_options(check)
    _add_override_options(check)
    check.add_argument(
        "--artifact",
        metavar="FILE",
        help="check that this artifact is up to date with the profile; without a profile, that a router would load it",
    )
    check.add_argument("--strict", action="store_true", help="exit with 1 for warnings, too")
    check.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="text on standard error (default); or JSON, or annotations of a GitHub workflow, on standard output",
    )


def _add_selection_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="the profile: a preset or a path")
    _add_named_options(parser)


def _add_named_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--api-profile-file", metavar="PATH", help="the profile, always a path")
    parser.add_argument("--api-profile", metavar="NAME", help="the profile, always a preset")


def _add_output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to write; - is standard output")


def _add_profile_options(parser: argparse.ArgumentParser) -> None:
    _add_selection_options(parser)
    _add_output_option(parser)
    _add_override_options(parser)


def _add_override_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--override-sampling-params",
        metavar="JSON",
        help="replace the whole `sampling` section by these parameters, as in '{\"top_p\": 0.95}'",
    )
    parser.add_argument(
        "--sampling-param-conflict",
        choices=("reject", "allow"),
        help="what happens to a request that sends another value (default: reject)",
    )


class _Version(argparse.Action):
    """Prints the version; it is looked up only when it is requested, because that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        _print(f"{import_module('compiler.cli.version').describe()}\n")
        parser.exit()


class _Completion(argparse.Action):
    """Prints a completion script; its module is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object) -> None:  # noqa: ANN401
        _print(import_module("compiler.cli.completion").script(parser, shell))
        parser.exit()


def _print(text: str) -> None:
    import_module("compiler.cli.output").write(text.encode(), "-")
