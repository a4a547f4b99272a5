"""The common parts of OpenAI's two wire formats: refusals and usage of a plan."""

from model_server.scenario import Fault, Turn
from model_server.wire import Json

#: Status and error of each refusal.
REFUSALS: dict[Fault, tuple[int, Json]] = {
    Fault.RATE_LIMITED: (
        429,
        {"type": "tokens", "code": "rate_limit_exceeded", "message": "Rate limit reached on tokens per min."},
    ),
    Fault.LIMIT_REACHED: (
        429,
        {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your current quota."},
    ),
    Fault.UNAUTHORIZED: (
        401,
        {"type": "invalid_request_error", "code": "invalid_api_key", "message": "Incorrect API key provided."},
    ),
    Fault.CONTEXT_FULL: (
        400,
        {
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
            "message": "Your input exceeds the context window of this model.",
        },
    ),
    Fault.SERVER_ERROR: (500, {"type": "server_error", "code": None, "message": "The server had an error."}),
    Fault.OVERLOADED: (503, {"type": "server_error", "code": "overloaded", "message": "The engine is overloaded."}),
}


def plan_headers(turn: Turn, now: int) -> dict[str, str]:
    """Return headers with the usage of a ChatGPT plan in its windows of five hours and a week."""
    if turn.limit_used is None:
        return {}
    return {
        "x-codex-primary-used-percent": str(turn.limit_used * 100),
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(now + turn.retry_after),
        "x-codex-secondary-used-percent": "40.0",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(now + 400_000),
    }
