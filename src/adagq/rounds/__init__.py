"""The loops: who is asked what, how long a round waits, and what its updates make of the model.

drive(method, backend, schedule, goal)      runs a method's loop to its goal: `driver`
Backend                                     delivers messages and arrivals: `backend`
LOOPS                                       synchronous, fedbuff, …: `loops`; a loop is one file that registers itself
"""

from adagq.rounds.backend import Backend
from adagq.rounds.buffered import Buffered
from adagq.rounds.driver import Goal, Observer, drive
from adagq.rounds.loops import LOOPS, loop_of
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State
from adagq.rounds.synchronous import synchronous

__all__ = [
    "LOOPS",
    "Backend",
    "Buffered",
    "Goal",
    "Observer",
    "RoundResult",
    "Schedule",
    "State",
    "drive",
    "loop_of",
    "synchronous",
]
