"""gunicorn reads this file from the folder it starts in; all of it lives in the package, in router/gunicorn_conf.py."""

from router.gunicorn_conf import *  # noqa: F403 - gunicorn takes its settings from this file's names
