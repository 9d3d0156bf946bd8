/* The words of c/lanes.c for one state, after those of dialects.h and sincos.h. */
typedef real number, vector;
#define bits int
#define LANES 1
#define ZERO ((vector)0)
#define NOT(mask) (!(mask))
#define NO_RESULT NO_NUMBER
#define EXPORTED FUNCTION
#define IN_ALL_LANES(x) x

FUNCTION vector chosen(int first, vector a, vector b) { return first ? a : b; }
FUNCTION vector root(vector a) { return FLOAT64 ? sqrt(a) : sqrtf(a); }
FUNCTION int in_any_lane(int b) { return b; }

FUNCTION void read_lanes(const number *from, long stride, int own, int size, vector *restrict to)
{
  for (int i = 0; i < size; ++i) to[i] = from[i];
}

FUNCTION void write_lanes(const vector *restrict from, int size, number *to, long stride, int own)
{
  for (int i = 0; i < size; ++i) to[i] = from[i];
}

/* An angle that is too large has no result. */
FUNCTION void sincos_all(int blocks, const vector *restrict angle, const vector *restrict offset, vector *restrict sine,
  vector *restrict cosine)
{
  for (int k = 0; k < blocks; ++k) {
    sincos_of_sum(angle[k], offset ? offset[k] : 0, sine + k, cosine + k);
    if (EXCEEDS(angle[k], LARGE)) sine[k] = cosine[k] = NO_NUMBER;
  }
}

FUNCTION vector sin_lanes(vector x)
{
  vector sine, cosine;
  sincos_all(1, &x, 0, &sine, &cosine);
  return sine;
}

FUNCTION vector cos_lanes(vector x)
{
  vector sine, cosine;
  sincos_all(1, &x, 0, &sine, &cosine);
  return cosine;
}
