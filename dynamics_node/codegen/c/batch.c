/* The Program over many states, LANES in a vector. An array holds the rows of all states side by side, or one row for
   all of them (`same`). */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#endif
/* LOW and HIGH mix the numbers within the chunks of two vectors, the others take whole chunks of them: each is one quick
   instruction. */
enum { CHUNKS = VECTOR_BYTES / 16, CHUNK = LANES / CHUNKS };
#define LOW(a, b) SHUFFLE(a, b, EACH_CHUNK(MIXED, 0))
#define HIGH(a, b) SHUFFLE(a, b, EACH_CHUNK(MIXED, 1))
#if VECTOR_BYTES == 64
#define FIRST(a, b) SHUFFLE(a, b, WHOLE(0), WHOLE(1), WHOLE(4), WHOLE(5))
#define SECOND(a, b) SHUFFLE(a, b, WHOLE(2), WHOLE(3), WHOLE(6), WHOLE(7))
#define EVEN(a, b) SHUFFLE(a, b, WHOLE(0), WHOLE(2), WHOLE(4), WHOLE(6))
#define ODD(a, b) SHUFFLE(a, b, WHOLE(1), WHOLE(3), WHOLE(5), WHOLE(7))
#elif VECTOR_BYTES == 32
#define FIRST(a, b) SHUFFLE(a, b, WHOLE(0), WHOLE(2))
#define SECOND(a, b) SHUFFLE(a, b, WHOLE(1), WHOLE(3))
#endif

/* LANES vectors are transposed by both of the following in any order: one turns the numbers of every chunk over CHUNK
   vectors, by perfect shuffles; one turns chunks over every CHUNK-th vector. */
static inline void transpose_numbers(vector *a)
{
#pragma GCC unroll 2
  for (int turned = 1; turned < CHUNK; turned *= 2) {
    vector b[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; ++i) {
      const int k = i + i / (CHUNK / 2) * (CHUNK / 2);
      b[2 * i] = LOW(a[k], a[k + CHUNK / 2]);
      b[2 * i + 1] = HIGH(a[k], a[k + CHUNK / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) a[i] = b[i];
  }
}

static inline void transpose_chunks(vector *a)
{
#pragma GCC unroll 4
  for (int n = 0; n < CHUNK; ++n) {
    vector *const v = a + n;
#if VECTOR_BYTES == 64
    const vector low = FIRST(v[0], v[CHUNK]), low_too = FIRST(v[2 * CHUNK], v[3 * CHUNK]);
    const vector high = SECOND(v[0], v[CHUNK]), high_too = SECOND(v[2 * CHUNK], v[3 * CHUNK]);
    v[0] = EVEN(low, low_too);
    v[CHUNK] = ODD(low, low_too);
    v[2 * CHUNK] = EVEN(high, high_too);
    v[3 * CHUNK] = ODD(high, high_too);
#elif VECTOR_BYTES == 32
    const vector low = FIRST(v[0], v[CHUNK]);
    v[CHUNK] = SECOND(v[0], v[CHUNK]);
    v[0] = low;
#endif
  }
}

/* LANES rows of a size as vectors over the states, and the sum of all of them. Reads up to LANES - 1 numbers beyond the
   last row. Several sums: one would wait for itself. */
static inline __attribute__((always_inline)) vector read_rows(const number *rows, int size, vector *restrict in)
{
  vector sum[4] = {0};
#pragma GCC unroll 4
  for (int n = 0; n < size; n += LANES) {
    vector a[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j) memcpy(a + j, rows + j * size + n, sizeof(vector));
    transpose_chunks(a); /* first, for of few columns most chunks fall away */
    transpose_numbers(a);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
      if (n + i < size) in[n + i] = a[i];
      if (n + i < size) sum[i % 4] += a[i];
    }
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static inline __attribute__((always_inline)) vector read_same(const number *row, int size, vector *restrict in)
{
  vector sum = {0};
  for (int n = 0; n < size; ++n) sum += in[n] = (vector){0} + row[n];
  return sum;
}

/* Not 0 in the lanes where a quaternion is not of unit length. */
static inline vector not_unit(const vector *p)
{
  const vector off = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3] - 1;
  return (vector)(off * off > (number)(UNIT_TOLERANCE * UNIT_TOLERANCE));
}

/* Not 0 in the lanes where a number exceeds its limit. */
static inline vector exceeds(vector x, number limit)
{
  return (vector)(x > limit);
}

static inline int any(vector x)
{
  const bits nonzero = x != 0;
  int one = 0;
  for (int j = 0; j < LANES; ++j) one |= nonzero[j] != 0;
  return one;
}

/* Where the results of LANES states go: of every output the first of their rows. `sum`: of all numbers written;
   `excess`: not 0 in the lanes where a number exceeds its limit; `past`: whether write_values goes past the caches. */
typedef struct {
  vector sum, excess;
  number *row[OUTPUTS + 1];
  int past;
} Results;

/* The compiler keeps what is written before and behind it apart: caches want rows written in order. */
#define IN_ORDER __asm__ volatile("" ::: "memory")

/* `width` numbers of every row from n on, a vector over the states of each. A width that the compiler knows needs no
   call to copy. */
static inline __attribute__((always_inline)) void write_part(
    Results *restrict y, int output, int size, int n, int width, const vector *numbers)
{
#pragma GCC unroll 4
  for (int k = 0; k < width; k += LANES) {
    const int own = width - k < LANES ? width - k : LANES;
    vector a[LANES], sum[4] = {0};
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j) {
      a[j] = j < own ? numbers[k + j] : (vector){0};
      if (j < own) sum[j % 4] += a[j];
    }
    y->sum += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    transpose_numbers(a);
    transpose_chunks(a);
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j) memcpy(y->row[output] + j * size + n + k, a + j, own * sizeof(number));
  }
  IN_ORDER;
}

/* Zeros in their place. */
static inline __attribute__((always_inline)) void write_zeros(Results *restrict y, int output, int size, int n, int width)
{
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j) memset(y->row[output] + j * size + n, 0, width * sizeof(number));
  IN_ORDER;
}

/* Whole rows, of the values at some places of w: whole lines of the caches, which memory takes sooner than halves of
   several. The last line of columns overlaps the one before it. */
enum { LINE = 64 / sizeof(vector) }; /* vectors */
static inline __attribute__((always_inline)) void write_whole_rows(
    Results *restrict y, int output, int size, const int *restrict at, const vector *restrict w, int past)
{
  number *const row = y->row[output];
  vector sum[LANES] = {0};
  for (int n = 0; n < size; n += LINE * LANES) {
    const int start = n + LINE * LANES <= size ? n : size - LINE * LANES;
    vector a[LINE][LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LINE; ++i) {
#pragma GCC unroll 16
      for (int k = 0; k < LANES; ++k) sum[k] += a[i][k] = w[at[start + i * LANES + k]];
      transpose_numbers(a[i]);
      transpose_chunks(a[i]);
    }
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j)
#pragma GCC unroll 4
      for (int i = 0; i < LINE; ++i) {
        number *const to = row + j * size + start + i * LANES;
        if (past) vector_past_caches(to, a[i][j]);
        else memcpy(to, &a[i][j], sizeof(vector));
      }
  }
  for (int k = 0; k < LANES; ++k) y->sum += sum[k];
}

/* A function of its own, which has registers for the transposition. */
static __attribute__((noinline, flatten)) void write_values(
    Results *restrict y, int output, int size, const int *restrict at, const vector *restrict w)
{
  if (size < LINE * LANES)
    for (int n = 0; n < size; ++n) write_part(y, output, size, n, 1, w + at[n]);
  else if (y->past) write_whole_rows(y, output, size, at, w, 1);
  else write_whole_rows(y, output, size, at, w, 0);
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
