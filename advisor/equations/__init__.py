"""Pure functions on plain numbers or arrays, one physical quantity each."""

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]
"""One value, or an array of them; every function broadcasts."""
