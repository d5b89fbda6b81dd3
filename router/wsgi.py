"""The WSGI entry point: `gunicorn router.wsgi`."""

import os
import sys
from typing import Any

from gunicorn.errors import AppImportError

from router import lifecycle, startup
from router.app import create_app, open_services
from router.artifact.format import ArtifactError
from router.middleware import Middleware
from router.settings.declarations import SettingError
from router.telemetry import shared_metrics


def _application() -> Any:  # noqa: ANN401 - a WSGI callable
    startup.configure_logging()
    try:
        own = lifecycle.active_settings(os.environ)
        artifact = lifecycle.active_artifact(own)
        if own.metrics and startup.is_preloading():
            shared_metrics.prepare()
        services = open_services(own, artifact)
        app = Middleware(create_app(services), services)
    except (SettingError, ArtifactError) as error:
        if startup.is_preloading():
            # In the arbiter gunicorn would print a traceback.
            sys.exit(startup.start_error(error))
        # With any other error gunicorn would fork workers forever.
        raise AppImportError(startup.start_error(error)) from None
    startup.log_in_first_worker(own, artifact)
    if not startup.is_preloading():
        services.discovery.start_and_wait()
    return app


application = _application()
