"""gunicorn's parsed request with two fixes: the target of rejected requests, and `close` among other options."""

from typing import Any

from gunicorn.http import message
from gunicorn.http.errors import ParseException


class GunicornRequest(message.Request):  # type: ignore[misc] # gunicorn has no types
    """Parsed headers of a request; the exception of a rejected one has its target as `target`, or None."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - gunicorn's
        try:
            super().__init__(*arguments)
        except ParseException as error:
            error.target = self.path
            raise

    def should_close(self) -> bool:
        """Return whether the connection ends with this request: `close` may stand among others (RFC 9110, 7.6.1)."""
        options = [value for name, value in self.headers if name == "CONNECTION"]
        if any(option.strip(" \t").lower() == "close" for value in options for option in value.split(",")):
            return True
        return bool(super().should_close())
