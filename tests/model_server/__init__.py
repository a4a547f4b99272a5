"""A scripted model on loopback that speaks the wire formats of the real CLIs, in place of their vendors."""

from model_server.scenario import NEARLY_FULL, Fault, Turn, UnfitTurns, Usage
from model_server.seen import Request
from model_server.server import ModelServer, Scenario

__all__ = ["NEARLY_FULL", "Fault", "ModelServer", "Request", "Scenario", "Turn", "UnfitTurns", "Usage"]
