"""Admission control: how many inference requests are in flight at once; one more is rejected as `overloaded`."""

from router.contract.errors import ApiError, overloaded
from router.request.context import RequestContext
from router.runtime.semaphore import SharedSemaphore


def early_rejection(in_flight: SharedSemaphore) -> ApiError | None:
    """Return the error of a request that arrives while no slot is free; None when one is. Its body is not read."""
    return overloaded() if in_flight.is_exhausted() else None


def admit(in_flight: SharedSemaphore, context: RequestContext) -> None:
    """Acquire a slot for a request whose body was read. Raises ApiError `overloaded` when none is free."""
    context.slot_acquired = in_flight.try_acquire()
    if not context.slot_acquired:
        raise overloaded()


def release(in_flight: SharedSemaphore, context: RequestContext) -> None:
    """Release the slot of a request, if it has one."""
    if context.slot_acquired:
        in_flight.release()
