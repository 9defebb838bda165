"""Units: SI inside, human units only at the doors.

Inside the engine every quantity is in bytes, FLOPs (a count, never a rate), seconds,
bytes per second, FLOPs per second, watts or USD per hour, and its name shows the unit. Data files
and the screen use the human units below. Each value is converted once, where it enters or leaves.
"""

from typing import Final

MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
KIB: Final = 2.0**10
MIB: Final = 2.0**20
GIB: Final = 2.0**30

TFLOP: Final = 1e12
MILLION: Final = 1e6
BILLION: Final = 1e9

MICROSECOND: Final = 1e-6
MILLISECOND: Final = 1e-3
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
HOURS_PER_MONTH: Final = 730.0
"""Average hours in a month: 365 days x 24 h / 12. [h]"""

MONTHS_PER_YEAR: Final = 12

BITS_PER_BYTE: Final = 8.0
GIGABIT_PER_S: Final = 1e9 / BITS_PER_BYTE
"""One gigabit per second. [bytes/s]"""
