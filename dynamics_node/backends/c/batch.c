/* The Program over many states, LANES in a vector. An array holds the rows of all states side by side, or one row for
   all of them (`same`). */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#endif
#if LANES == 8
#define LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* LANES vectors, transposed: a perfect shuffle of all their entries turns the bits of an entry's number by one, and
   log2(LANES) of them exchange row and column. */
static inline void transpose(vector *a)
{
#pragma GCC unroll 4
  for (int turned = 1; turned < LANES; turned *= 2) {
    vector b[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; ++i) {
      b[2 * i] = LOW(a[i], a[i + LANES / 2]);
      b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) a[i] = b[i];
  }
}

/* LANES rows of a size as vectors over the states. Reads up to LANES - 1 numbers beyond the last row. */
static inline __attribute__((always_inline)) void read_rows(const number *rows, int size, vector *restrict in)
{
  for (int n = 0; n < size; n += LANES) {
    vector a[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j) memcpy(a + j, rows + j * size + n, sizeof(vector));
    transpose(a);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i)
      if (n + i < size) in[n + i] = a[i];
  }
}

static inline __attribute__((always_inline)) void read_same(const number *row, int size, vector *restrict in)
{
  for (int n = 0; n < size; ++n) in[n] = (vector){0} + row[n];
}

/* 0 in the lanes where all numbers and their sum are finite, else NaN. Several sums: one would wait for itself. */
static inline __attribute__((always_inline)) vector not_finite(int size, const vector *numbers)
{
  vector sum[4] = {0};
#pragma GCC unroll 4
  for (int n = 0; n < size; ++n) sum[n % 4] += numbers[n];
  const vector total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return total - total;
}

/* Not 0 in the lanes where a quaternion is not of unit length. */
static inline vector not_unit(const vector *p)
{
  const vector off = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3] - 1;
  return (vector)(off * off > (number)(UNIT_TOLERANCE * UNIT_TOLERANCE));
}

/* Not 0 in the lanes where a number is beyond its limit. */
static inline vector beyond(vector x, number limit)
{
  return (vector)(x > limit);
}

static inline int any(vector x)
{
  const bits found = x != 0;
  int one = 0;
  for (int j = 0; j < LANES; ++j) one |= found[j] != 0;
  return one;
}

/* `width` numbers from n on of the first `lanes` rows, and their sum. A width that the compiler knows needs no call to
   copy. */
static inline __attribute__((always_inline)) vector write_part(
    const vector *out, number *rows, int size, int lanes, int n, int width)
{
  vector a[LANES], sum[4] = {0};
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j) {
    a[j] = j < width ? out[n + j] : (vector){0};
    if (j < width) sum[j % 4] += a[j];
  }
  transpose(a);
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j)
    if (j < lanes) memcpy(rows + j * size + n, a + j, width * sizeof(number));
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The first `count` numbers of the first `lanes` rows, of what was computed: 0 in the lanes where all of them and their
   sum are finite, else NaN. */
static inline __attribute__((always_inline)) vector write_rows(
    const vector *out, number *rows, int size, int lanes, int count)
{
  const int whole = count - count % LANES;
  vector total = {0};
  for (int n = 0; n < whole; n += LANES) total += write_part(out, rows, size, lanes, n, LANES);
  if (whole < count) total += write_part(out, rows, size, lanes, whole, count - whole);
  return total - total;
}

/* Zeros in their place. */
static inline __attribute__((always_inline)) void write_zeros(number *rows, int size, int lanes, int count)
{
  const int whole = count - count % LANES;
  const vector zero = {0};
  for (int j = 0; j < lanes; ++j) {
    for (int n = 0; n < whole; n += LANES) memcpy(rows + j * size + n, &zero, sizeof zero);
    if (whole < count) memcpy(rows + j * size + whole, &zero, (count - whole) * sizeof(number));
  }
}

/* Of the rows of an array from state k on, LANES that can be read with LANES - 1 numbers beyond: those of the array,
   or near its end a copy in which the last one is repeated. */
static inline const number *readable(const number *rows, int size, long k, long count, number *copy)
{
  if (k + 2 * LANES <= count) return rows + k * size;
  for (int j = 0; j < LANES; ++j)
    memcpy(copy + j * size, rows + (k + j < count ? k + j : count - 1) * size, size * sizeof(number));
  return copy;
}
