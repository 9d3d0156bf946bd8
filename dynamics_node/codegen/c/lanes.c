/* What the text of contacts is written in: LANES states in a vector; cuda/lanes.h has the same words for one state. */
#define NOT(mask) (~(mask))
#define NO_RESULT (ZERO + (number)__builtin_nan(""))
#define EXPORTED
#define FUNCTION static inline

static inline vector chosen(bits first, vector a, vector b)
{
  return (vector)((first & (bits)a) | (~first & (bits)b));
}

static inline vector root(vector a)
{
  for (int j = 0; j < LANES; ++j) a[j] = sizeof(number) == 8 ? __builtin_sqrt(a[j]) : __builtin_sqrtf(a[j]);
  return a;
}

static inline int in_any_lane(bits b)
{
  long long some = 0;
  for (int j = 0; j < LANES; ++j) some |= b[j];
  return some != 0;
}

static inline void read_lanes(const number *from, long stride, int own, int size, vector *restrict to)
{
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < LANES; ++j) to[i][j] = from[(j < own ? j : own - 1) * stride + i];
}

static inline void write_lanes(const vector *restrict from, int size, number *to, long stride, int own)
{
  for (int j = 0; j < own; ++j)
    for (int i = 0; i < size; ++i) to[j * stride + i] = from[i][j];
}
