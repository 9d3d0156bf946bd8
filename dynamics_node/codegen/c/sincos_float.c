/* Vectors of LANES floats, and coefficients of minimax polynomials on |r| <= pi/4. */
typedef float number;
typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int bits __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(number) };
#define IN_CHUNK(chunk, x) x, x, x, x
#define MIXED(chunk, half) \
  4 * chunk + 2 * half, LANES + 4 * chunk + 2 * half, 4 * chunk + 2 * half + 1, LANES + 4 * chunk + 2 * half + 1
#define WHOLE(chunk) 4 * chunk, 4 * chunk + 1, 4 * chunk + 2, 4 * chunk + 3
#define NUMBER_FORMAT 'f'
#define LARGE 0x1p12f /* rad: up to here a multiple of pi/2 times the first three parts of it is exact */
#define SIN sinf
#define COS cosf
#define QUARTERS_PER_RADIAN 0x1.45f306p-1f
#define QUARTER_1 0x1.92p0f
#define QUARTER_2 0x1.fb4p-12f
#define QUARTER_3 0x1.444p-24f
#define QUARTER_4 0x1.68c234p-39f
#define ROUNDING 0x1.8p23f /* added, it leaves an integer in the low bits */
#define TO_SIGN 31 /* moves bit 0 to the sign */

static inline vector reduced(vector x, vector k)
{
  return (((x - k * QUARTER_1) - k * QUARTER_2) - k * QUARTER_3) - k * QUARTER_4;
}

#define TERMS 3
static const number sine_term[TERMS] = {-0x1.555546p-3f, 0x1.11072ep-7f, -0x1.993d72p-13f};
static const number cosine_term[TERMS] = {0x1.55554ap-5f, -0x1.6c0c58p-10f, 0x1.99f2dep-16f};
