/* Sines and cosines of angles, each with a constant offset, if there are any. It is added when the whole turns are off: a
   large angle would swallow its digits. In vectors of LANES, without branches: reduced by multiples of pi/2 in parts
   (Cody and Waite), then a polynomial. Within 2.5 units in the last place for angles up to LARGE; for one beyond, or not
   finite, the C library is asked.

   A step is taken for n vectors, 1 or 2, before the next one: two share constants, which are in registers then.
   LARGE, QUARTERS_PER_RADIAN, REDUCED(x, n), TERMS, sine_term and cosine_term are from symbolic/sines.py. */
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 8")
#define EACH UNROLLED for (int i = 0; i < n; ++i)

/* The polynomials of sine and cosine in z, in pairs of terms: half the length of Horner's chain. */
INLINE void polynomials(int n, const vector *z, vector *restrict s, vector *restrict c)
{
  vector zz[2];
  EACH zz[i] = z[i] * z[i];
  EACH s[i] = TERMS % 2 ? sine_term[TERMS - 1] + (vector){0} : sine_term[TERMS - 2] + z[i] * sine_term[TERMS - 1];
  EACH c[i] = TERMS % 2 ? cosine_term[TERMS - 1] + (vector){0} : cosine_term[TERMS - 2] + z[i] * cosine_term[TERMS - 1];
  UNROLLED for (int k = (TERMS - 1) / 2 * 2 - 2; k >= 0; k -= 2) {
    EACH s[i] = (sine_term[k] + z[i] * sine_term[k + 1]) + zz[i] * s[i];
    EACH c[i] = (cosine_term[k] + z[i] * cosine_term[k + 1]) + zz[i] * c[i];
  }
  EACH c[i] = (1 - z[i] * (number)0.5) + zz[i] * c[i];
}

INLINE void sincos_lanes(int n, const vector *x, const vector *offset, vector *restrict sine,
  vector *restrict cosine)
{
  vector k[2], r[2], z[2], s[2], c[2];
  bits quarter[2];
  EACH {
    const vector shifted = (offset ? x[i] + offset[i] : x[i]) * QUARTERS_PER_RADIAN + ROUNDING;
    quarter[i] = (bits)shifted;
    k[i] = shifted - ROUNDING;
  }
  EACH r[i] = offset ? REDUCED(x[i], k[i]) + offset[i] : REDUCED(x[i], k[i]);
  EACH z[i] = r[i] * r[i];
  polynomials(n, z, s, c);
  EACH s[i] = r[i] + r[i] * z[i] * s[i];
  EACH {
    const bits odd = quarter[i] << TO_SIGN, sign = (quarter[i] & 2) << (TO_SIGN - 1);
    const bits swapped = ((bits)s[i] ^ (bits)c[i]) & -(quarter[i] & 1);
    sine[i] = (vector)(swapped ^ ((bits)s[i] ^ sign));
    cosine[i] = (vector)(swapped ^ ((bits)c[i] ^ (sign ^ odd)));
  }
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
    int k = 0;
    for (; k + 1 < blocks; k += 2) sincos_lanes(2, angle + k, offset ? offset + k : 0, sine + k, cosine + k);
    if (k < blocks) sincos_lanes(1, angle + k, offset ? offset + k : 0, sine + k, cosine + k);
    return;
  }
#pragma GCC unroll 1
  for (int k = 0; k < blocks; ++k) {
    sincos_lanes(1, angle + k, offset ? offset + k : 0, sine + k, cosine + k);
    for (int j = 0; j < LANES; ++j) {
      const number x = angle[k][j], add = offset ? offset[k][j] : 0;
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
