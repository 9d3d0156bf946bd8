/* Sines and cosines of angles, each with a constant offset that is added when the whole turns are off: a large angle
   would swallow its digits. In vectors of LANES, without branches: reduced by multiples of pi/2 in parts (Cody and
   Waite), then a polynomial. Within 2.5 units in the last place for angles up to LARGE; for one beyond, or not finite,
   the C library is asked. */
static inline void sincos_lanes(vector x, vector offset, vector *restrict sine, vector *restrict cosine)
{
  const vector shifted = (x + offset) * QUARTERS_PER_RADIAN + ROUNDING;
  const bits quarter = (bits)shifted;
  const vector k = shifted - ROUNDING;
  const vector r = reduced(x, k) + offset;
  const vector z = r * r, s = sine_near_zero(r, z), c = cosine_near_zero(z);
  const bits odd = quarter << TO_SIGN, swapped = ((bits)s ^ (bits)c) & -(quarter & 1);
  const bits sign = (quarter & 2) << (TO_SIGN - 1);
  *sine = (vector)((bits)s ^ swapped ^ sign);
  *cosine = (vector)((bits)c ^ swapped ^ sign ^ odd);
}

/* True when the angles of a number of vectors are within LARGE, also as the length of a vector of one state's. */
static inline int all_small(int blocks, const vector *restrict angle)
{
  vector squares = {0};
  for (int k = 0; k < blocks; ++k) squares += angle[k] * angle[k];
  const bits small = squares <= LARGE * LARGE;
  int all = 1;
  for (int j = 0; j < LANES; ++j) all &= small[j] != 0;
  return all;
}

static void sincos_all(int blocks, const vector *restrict angle, const vector *restrict offset, vector *restrict sine,
  vector *restrict cosine)
{
  if (all_small(blocks, angle)) {
    for (int k = 0; k < blocks; ++k) sincos_lanes(angle[k], offset[k], sine + k, cosine + k);
    return;
  }
#pragma GCC unroll 1
  for (int k = 0; k < blocks; ++k) {
    sincos_lanes(angle[k], offset[k], sine + k, cosine + k);
    for (int j = 0; j < LANES; ++j) {
      const number x = angle[k][j], add = offset[k][j];
      if (x * x <= LARGE * LARGE) continue;
      sine[k][j] = SIN(x) * COS(add) + COS(x) * SIN(add);
      cosine[k][j] = COS(x) * COS(add) - SIN(x) * SIN(add);
    }
  }
}

/* Of single angles that need other sines first. */
static inline vector sin_lanes(vector x)
{
  for (int j = 0; j < LANES; ++j) x[j] = SIN(x[j]);
  return x;
}

static inline vector cos_lanes(vector x)
{
  for (int j = 0; j < LANES; ++j) x[j] = COS(x[j]);
  return x;
}

/* Four angles of one state, from number k on. Side by side in registers: vectors of what was just stored would wait. */
#if VECTOR_BYTES == 32
#define FOUR_ANGLES(k, a, b, c, d) angle[k / 4] = (vector){a, b, c, d}
#else
#define FOUR_ANGLES(k, a, b, c, d) angle[k / 2] = (vector){a, b}, angle[k / 2 + 1] = (vector){c, d}
#endif
