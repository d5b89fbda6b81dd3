"""`python -m router.mock_engine`: the mock engine as a program, until SIGTERM or SIGINT."""

import argparse
import signal
import sys

from router.mock_engine.server import MockEngine


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the one line printed is the URL, once it is ready."""
    parser = argparse.ArgumentParser(prog="python -m router.mock_engine", description="The mock engine.")
    parser.add_argument("--port", type=int, default=0, help="TCP port on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument("--model", action="append", help="a served model id, repeatable; responses name the first")
    parser.add_argument("--no-record", action="store_true", help="do not record requests (for load)")
    options = parser.parse_args(arguments)
    stopping = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)  # before any thread starts, so that all of them inherit it
    engine = MockEngine(options.model or ("served",), port=options.port)
    engine.recording = not options.no_record
    with engine:
        sys.stdout.write(f"{engine.url}\n")
        sys.stdout.flush()
        signal.sigwait(stopping)
    return 0


if __name__ == "__main__":
    sys.exit(main())
