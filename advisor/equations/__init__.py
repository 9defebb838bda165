"""Pure functions on plain numbers or arrays, one physical quantity each."""
