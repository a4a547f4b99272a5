"""A scripted model on loopback that speaks what the real CLIs speak: the tests' stand-in for the vendors."""

from model_server.scenario import NEARLY_FULL, Fault, Turn, UnfitTurns, Usage
from model_server.seen import Request
from model_server.server import ModelServer, Scenario

__all__ = ["NEARLY_FULL", "Fault", "ModelServer", "Request", "Scenario", "Turn", "UnfitTurns", "Usage"]
