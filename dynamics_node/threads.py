"""How many threads linear algebra takes. Nothing that takes long to import."""

import os

# Of OpenBLAS, MKL and BLIS: whichever NumPy and SciPy have. They are read when NumPy is imported.
ONE_BLAS_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")


def one_blas_thread():
    """Let BLAS compute with one thread in this process and those that it starts, unless the environment says
    otherwise: a robot's matrices are small, and threads that wait for each other take ten times the processor
    time on a busy machine. For entry points, before NumPy is imported; importing the library changes nothing.
    """
    for name, count in ONE_BLAS_THREAD.items():
        os.environ.setdefault(name, count)
