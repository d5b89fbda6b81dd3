"""The composition root, and the Flask app: health routes, model list, metrics, and one shape for every error."""

from typing import Any, Final
from urllib.parse import unquote

import flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter

from router import lifecycle
from router.artifact.format import Artifact
from router.auth import ApiKeys
from router.balancing.policies import POLICIES
from router.contract.errors import ApiError, without_frames
from router.discovery.discovery import Discovery, engines_of
from router.endpoints import InferenceEndpoint, client_closed_response, error_response, internal_error_response
from router.model_cards import model_cards
from router.pipeline import Services
from router.request import routes
from router.request_filter import RequestFilter
from router.response import ProxyResponse
from router.runtime.semaphore import SharedSemaphore
from router.server import draining
from router.server.disconnect import ClientDisconnectedError
from router.server.wsgi_adapter import context_in, request_in
from router.settings.declarations import Settings
from router.telemetry.meter import CONTENT_TYPE, ErrorCounts, GaugeSource, MetricsRegistry
from router.telemetry.spans import Tracer
from router.upstream.balancer import LoadBalancer
from router.upstream.circuit_breaker import BreakerConfig
from router.upstream.client import HttpClient
from router.upstream.context_length import ContextLimits
from router.upstream.engine_state import ModelCard
from router.upstream.forward import Forwarder
from router.upstream.health_checks import HealthChecker
from router.upstream.registry import EngineRegistry

_MODEL: Final = f"{routes.MODELS}/"


class _AnyPath(BaseConverter):
    """A path parameter with any characters, also a leading slash: model ids may be paths of folders."""

    regex = ".+"
    part_isolating = False


class _OrderedJSONProvider(DefaultJSONProvider):
    """JSON with its members in the order of the code."""

    sort_keys = False


def open_services(settings: Settings, artifact: Artifact) -> Services:
    """Create everything that requests need. Opens and starts nothing yet."""
    breaker = BreakerConfig(settings.breaker_failures, settings.breaker_reset_timeout_seconds)
    has_aliases = any(alias.model is None for alias in artifact.contract.models.aliases.values())
    registry = EngineRegistry(
        tuple(engines_of(settings.engines)), settings.model_id, has_aliases=has_aliases, breaker=breaker
    )
    http_client = HttpClient(settings)
    in_flight_table = lifecycle.in_flight_table()
    context_limits = ContextLimits(registry, artifact.digest)
    load_balancer = LoadBalancer(registry, POLICIES[settings.policy], in_flight_table)
    in_flight = SharedSemaphore(settings.max_in_flight, lifecycle.admission_table())
    discovery = Discovery(settings, registry, HealthChecker(settings, registry, http_client), http_client)
    api_keys = ApiKeys(settings.api_keys, settings.api_keys_file)
    gauges = GaugeSource(
        in_flight.in_use,
        lambda: {**registry.state_counts(), "available": registry.available_count()},
        (artifact.name, artifact.digest),
        lambda: ErrorCounts(
            discovery.failures,
            discovery.failing_count(),
            int(api_keys.problem() is not None),
            api_keys.failures,
            http_client.unsolicited_count(),
        ),
        (lambda: {engine: in_flight_table.load(engine) for engine in registry.engines})
        if settings.metrics_by_engine
        else None,
        lambda: http_client.unsolicited_by_engine(registry.engines),
        settings.max_in_flight,
    )
    return Services(
        settings=settings,
        artifact=artifact,
        registry=registry,
        http_client=http_client,
        load_balancer=load_balancer,
        forwarder=Forwarder(
            settings, registry, http_client, load_balancer, in_flight_table, context_limits=context_limits
        ),
        discovery=discovery,
        in_flight=in_flight,
        context_limits=context_limits,
        api_keys=api_keys,
        meter=MetricsRegistry(gauges) if settings.metrics else None,
        tracer=Tracer() if settings.traces else None,
    )


def create_app(services: Services) -> flask.Flask:
    """Return the Flask app; its `extensions` contain the services and the inference endpoint."""
    request_filter = RequestFilter(services.settings, services.api_keys)
    inference_endpoint = InferenceEndpoint(services, request_filter)
    app = flask.Flask("router", static_folder=None)
    app.extensions |= {"router": services, "router.endpoints": inference_endpoint}
    app.url_map.merge_slashes = False
    app.url_map.converters["any_path"] = _AnyPath
    app.json = _OrderedJSONProvider(app)
    open_routes = services.settings.routes
    _add_inference(app, inference_endpoint, open_routes)
    if routes.MODELS in open_routes:
        _add_models(app, services)
    _add_probes(app, services)
    if services.meter is not None:
        _add_metrics(app, services.meter)
    _add_error_handlers(app, services, request_filter)
    return app


def _add_inference(app: flask.Flask, inference_endpoint: InferenceEndpoint, open_routes: tuple[str, ...]) -> None:
    """Add the inference routes; the middleware calls the endpoint directly for a POST to them."""

    def serve() -> flask.Response:
        environ = flask.request.environ
        return _response(inference_endpoint.serve(request_in(environ), context_in(environ)))

    for route in open_routes:
        if route != routes.MODELS:
            _add(app, route, serve, "POST")


def _add_models(app: flask.Flask, services: Services) -> None:
    def list_models() -> flask.Response:
        return _json({"object": "list", "data": _cards(services)})

    def show_model(model_id: str) -> flask.Response:  # noqa: ARG001 - the raw target decides, see below
        asked = unquote(request_in(flask.request.environ).path.removeprefix(_MODEL))
        for card in _cards(services):
            if card["id"] == asked:
                return _json(card)
        raise ApiError("model_not_found", f"The model {asked[:200]!r} does not exist here", "model")

    _add(app, routes.MODELS, list_models, "GET")
    _add(app, f"{_MODEL}<any_path:model_id>", show_model, "GET")


def _add_probes(app: flask.Flask, services: Services) -> None:
    def healthz() -> flask.Response:
        return _json({"status": "ok"})

    def readyz() -> flask.Response:
        reason = "draining" if draining.is_draining() else services.registry.not_ready_reason()
        state: dict[str, Any] = {
            "status": "ready" if reason is None else "not ready",
            "profile": services.artifact.name,
            "digest": services.artifact.digest,
            "models": list(services.registry.served_ids().present),
            "engines": services.registry.state_counts(),
        }
        # If an engine has both problems, the one that keeps requests from it is shown.
        problems = services.context_limits.problems() | services.registry.problems()
        if problems:
            state["engine_problems"] = problems
        if reason is not None:
            state["reason"] = reason
        if lifecycle.reload_error() is not None:
            state["reload_error"] = "the newest artifact could not be loaded; see the log"
        if services.api_keys.problem() is not None:
            state["api_keys_error"] = "the newest API keys could not be read; see the log"
        return _json(state, 200 if reason is None else 503)

    _add(app, routes.HEALTHZ, healthz, "GET")
    _add(app, routes.READYZ, readyz, "GET")


def _add_metrics(app: flask.Flask, meter: MetricsRegistry) -> None:
    def metrics_endpoint() -> flask.Response:
        return flask.Response(meter.exposition(), content_type=CONTENT_TYPE)

    _add(app, routes.METRICS, metrics_endpoint, "GET")


def _add_error_handlers(app: flask.Flask, services: Services, request_filter: RequestFilter) -> None:
    """Add the request filter before each route, and the one shape of every error."""
    errors = services.artifact.contract.errors

    @app.before_request
    def filter_request() -> None:
        _drop_routing_frames()
        services.discovery.start()
        request_filter.check(request_in(flask.request.environ), context_in(flask.request.environ))

    @app.errorhandler(ApiError)
    def on_api_error(error: ApiError) -> flask.Response:
        return _response(error_response(error, errors, context_in(flask.request.environ)))

    @app.errorhandler(HTTPException)
    def on_http_exception(error: HTTPException) -> flask.Response:
        _drop_routing_frames()
        if isinstance(error, MethodNotAllowed):
            response = on_api_error(ApiError("method_not_allowed", "This route does not support that method"))
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
            return response
        if isinstance(error, NotFound):
            return on_api_error(ApiError("not_found", "There is no such route here"))
        return on_api_error(ApiError("bad_request", "The request could not be understood"))

    @app.errorhandler(ClientDisconnectedError)
    def on_client_gone(_: ClientDisconnectedError) -> flask.Response:
        return _response(client_closed_response(context_in(flask.request.environ)))

    @app.errorhandler(Exception)
    def on_exception(error: Exception) -> flask.Response:
        return _response(internal_error_response(error, errors, context_in(flask.request.environ)))


def _drop_routing_frames() -> None:
    """Remove the frames of a routing error: Flask keeps the error in the request, to which the frames refer."""
    if flask.request.routing_exception is not None:
        without_frames(flask.request.routing_exception)


class _Response(flask.Response):
    """A response without a default Content-Type."""

    default_mimetype = None


def _response(proxied: ProxyResponse) -> flask.Response:
    """Return a whole response; raises TypeError for a streamed one, which the middleware writes."""
    if not isinstance(proxied.body, bytes):
        raise TypeError("a streamed response is written by the middleware")
    response = _Response(proxied.body, proxied.status, proxied.headers)
    response.call_on_close(proxied.close)
    return response


def _add(app: flask.Flask, route: str, view: Any, method: str) -> None:  # noqa: ANN401 - Flask's views vary
    app.add_url_rule(route, route, view, methods=[method], provide_automatic_options=False)


def _cards(services: Services) -> list[ModelCard]:
    served = services.registry.served_ids()
    if not served.ids:
        raise ApiError("no_healthy_engines", "No engine has listed its models yet")
    aliases = services.artifact.contract.models.aliases
    return model_cards(
        served, aliases, services.registry.model_cards(), include_max_model_len=services.settings.show_max_model_len
    )


def _json(value: object, status: int = 200) -> flask.Response:
    response = flask.jsonify(value)
    response.status_code = status
    return response
