"""Closed loops of a robot: their equations, closed positions, and the choice of independent joints."""
