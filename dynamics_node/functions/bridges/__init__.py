"""Functions inside other frameworks: CasADi, JAX and PyTorch, each imported when it is first used."""
