
/* Over many states, so that the call from Python does not count; results after results, or of derivatives at one
   place. */
#define LOOP(name, size) \
  void name##_loop(long count, long nq, long nv, const double *q, const double *v, const double *u, double *out) \
  { \
    for (long k = 0; k < count; ++k) { \
      const double *arg[3] = {q + k * nq, v + k * nv, u + k * nv}; \
      double *res[1] = {out + k * size}, w[16]; \
      long long int iw[1]; \
      name(arg, res, iw, w, 0); \
    } \
  }
LOOP(rnea, nv)
LOOP(aba, nv)
#ifdef WITH_DERIVATIVES
LOOP(drnea, 0)
LOOP(daba, 0)
#endif
