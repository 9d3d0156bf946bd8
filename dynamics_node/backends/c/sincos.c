/* Sines and cosines in vectors of LANES angles, without branches: reduced by multiples of pi/2 in three parts (Cody and
   Waite), then a polynomial. Within 2.5 units in the last place for angles up to LARGE; when one is beyond, or not
   finite, the C library is asked for all. */
static inline void sincos_lanes(vector x, vector *restrict sine, vector *restrict cosine)
{
  const vector shifted = x * QUARTERS_PER_RADIAN + ROUNDING;
  const bits quarter = (bits)shifted;
  const vector k = shifted - ROUNDING;
  const vector r = ((x - k * QUARTER_1) - k * QUARTER_2) - k * QUARTER_3;
  const vector z = r * r, s = sine_near_zero(r, z), c = cosine_near_zero(z);
  const bits odd = (quarter & 1) != 0, even = ~odd;
  *sine = (vector)((((bits)s & even) | ((bits)c & odd)) ^ ((quarter & 2) << TO_SIGN));
  *cosine = (vector)((((bits)c & even) | ((bits)s & odd)) ^ (((quarter + 1) & 2) << TO_SIGN));
}

/* True when no angle of a number of vectors is beyond LARGE or not finite. */
static inline int all_small(int blocks, const vector *restrict angle)
{
  bits small = ~(bits){0};
  for (int k = 0; k < blocks; ++k) small &= angle[k] * angle[k] <= LARGE * LARGE;
  int all = 1;
  for (int j = 0; j < LANES; ++j) all &= small[j] != 0;
  return all;
}

static void sincos_all(int blocks, const vector *restrict angle, vector *restrict sine, vector *restrict cosine)
{
  if (all_small(blocks, angle)) {
    for (int k = 0; k < blocks; ++k) sincos_lanes(angle[k], sine + k, cosine + k);
    return;
  }
  for (int j = 0; j < LANES * blocks; ++j) {
    ((number *)sine)[j] = SIN(((const number *)angle)[j]);
    ((number *)cosine)[j] = COS(((const number *)angle)[j]);
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
