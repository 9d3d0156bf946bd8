"""What runs a Problem: every backend makes an engine, a picklable callable with one signature.

engine(q, qd, qdd, tau, f_ext, gravity) -> (qdd, tau), complete; arrays as in CONVENTIONS (leading axes are
the batch), already checked; of qdd and tau only the known parts are read.
"""
