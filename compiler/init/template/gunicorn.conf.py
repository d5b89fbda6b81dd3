"""gunicorn reads this file from the folder it starts in; all of it lives in the package, in router/gunicorn_conf.py."""

import sys

try:
    from router.gunicorn_conf import *  # noqa: F403 - gunicorn takes its settings from this file's names
except ModuleNotFoundError as error:
    if error.name != "router.gunicorn_conf":
        raise
    hiding = getattr(sys.modules.get("router"), "__file__", None)
    sys.exit(f"router: {hiding} hides the installed package `router`: rename it, or start gunicorn in another folder")
