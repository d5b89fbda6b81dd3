"""Lets `python -m compiler` stand for `profilec`."""

import sys

from compiler.cli import main

sys.exit(main())
