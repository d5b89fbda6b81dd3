"""The exit codes of `profilec`, in one place.

0 success; 1 the profile is invalid, a check failed, `diff` finds a change or the result cannot be written; 2 the
command line is invalid; 3 a bug in profilec; 130 interrupted (128 + SIGINT); 141 nothing reads standard output any more
(128 + SIGPIPE).
"""

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141
