/* Sine and cosine of 8 angles at a time, in vectors, without branches: reduced by multiples of pi/2 in three parts
   (Cody and Waite), then the polynomials of fdlibm's kernels. Within 2.5 units in the last place for angles up to
   LARGE; beyond, and for what is not finite, the C library is asked. */
typedef double vector __attribute__((vector_size(64)));
typedef long long bits __attribute__((vector_size(64)));
#define LARGE 0x1p16

static inline void sincos8(const double *restrict angle, double *restrict sine, double *restrict cosine)
{
  const vector x = *(const vector *)angle;
  const vector shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52; /* rounds to an integer in the low bits */
  const bits quarter = (bits)shifted;
  const vector k = shifted - 0x1.8p52;
  const vector r = ((x - k * 0x1.921fb544p0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
  const vector z = r * r;
  const vector s = r + r * z * (-0x1.5555555555549p-3 + z * (0x1.111111110f8a6p-7 + z * (-0x1.a01a019c161d5p-13
    + z * (0x1.71de357b1fe7dp-19 + z * (-0x1.ae5e68a2b9cebp-26 + z * 0x1.5d93a5acfd57cp-33)))));
  const vector c = 1.0 - z * 0.5 + z * z * (0x1.555555555554cp-5 + z * (-0x1.6c16c16c15177p-10
    + z * (0x1.a01a019cb159p-16 + z * (-0x1.27e4f809c52adp-22 + z * (0x1.1ee9ebdb4b1c4p-29
    - z * 0x1.8fae9be8838d4p-37)))));
  const bits odd = (quarter & 1) != 0;
  const bits even = ~odd;
  *(vector *)sine = (vector)((((bits)s & even) | ((bits)c & odd)) ^ ((quarter & 2) << 62));
  *(vector *)cosine = (vector)((((bits)c & even) | ((bits)s & odd)) ^ (((quarter + 1) & 2) << 62));
}

static void sincos_all(int blocks, const double *restrict angle, double *restrict sine, double *restrict cosine)
{
  for (int k = 0; k < 8 * blocks; k += 8) {
    int small = 1;
    for (int j = k; j < k + 8; ++j) small &= fabs(angle[j]) <= LARGE;
    if (small) {
      sincos8(angle + k, sine + k, cosine + k);
      continue;
    }
    for (int j = k; j < k + 8; ++j) {
      sine[j] = sin(angle[j]);
      cosine[j] = cos(angle[j]);
    }
  }
}

/* Of single angles that need other sines first. */
static inline vector sin_lanes(vector x)
{
  for (int j = 0; j < 8; ++j) x[j] = sin(x[j]);
  return x;
}

static inline vector cos_lanes(vector x)
{
  for (int j = 0; j < 8; ++j) x[j] = cos(x[j]);
  return x;
}
