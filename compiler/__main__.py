"""Lets `python -m compiler` stand for `profilec`."""

import sys

from compiler.cli.main import main

sys.exit(main())
