"""Wrenches on links -> f_ext."""

import numpy as np

from dynamics_node.symbolic import matvec, transpose


def external_wrenches(model, wrenches):
    """f_ext (..., nbodies, 6) from {link: wrench (..., 6)}.

    A wrench acts ON the link, moment first, in link axes at the link origin; one on a link that is
    fixed to the root has no effect. The tool wrench F_t of paper 1, exerted BY the tool on the
    world, is minus that. Raises KeyError for an unknown link.
    """
    wrenches = {link: np.asarray(w, dtype=float) for link, w in wrenches.items()}
    batch = np.broadcast_shapes(*(w.shape[:-1] for w in wrenches.values()))
    f_ext = np.zeros((*batch, model.nbodies, 6))
    for link, w in wrenches.items():
        frame = model.frame(link)
        if frame.body >= 0:
            f_ext[..., frame.body, :] += matvec(transpose(frame.X), w)
    return f_ext
