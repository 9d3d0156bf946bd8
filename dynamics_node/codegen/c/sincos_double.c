/* Vectors of LANES doubles, and the coefficients of fdlibm's kernels. */
typedef double number;
typedef double vector __attribute__((vector_size(VECTOR_BYTES)));
typedef long long bits __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(number) };
#define IN_CHUNK(chunk, x) x, x
#define MIXED(chunk, half) 2 * chunk + half, LANES + 2 * chunk + half
#define WHOLE(chunk) 2 * chunk, 2 * chunk + 1
#define NUMBER_FORMAT 'd'
#define LARGE 0x1p16 /* rad: up to here a multiple of pi/2 times the first two parts of it is exact */
#define SIN sin
#define COS cos
#define QUARTERS_PER_RADIAN 0x1.45f306dc9c883p-1
#define QUARTER_1 0x1.921fb544p0
#define QUARTER_2 0x1.0b4611a6p-34
#define QUARTER_3 0x1.3198a2e037073p-69
#define ROUNDING 0x1.8p52 /* added, it leaves an integer in the low bits */
#define TO_SIGN 63 /* moves bit 0 to the sign */

static inline vector reduced(vector x, vector k)
{
  return ((x - k * QUARTER_1) - k * QUARTER_2) - k * QUARTER_3;
}

#define TERMS 6
static const number sine_term[TERMS] = {-0x1.5555555555549p-3, 0x1.111111110f8a6p-7, -0x1.a01a019c161d5p-13,
  0x1.71de357b1fe7dp-19, -0x1.ae5e68a2b9cebp-26, 0x1.5d93a5acfd57cp-33};
static const number cosine_term[TERMS] = {0x1.555555555554cp-5, -0x1.6c16c16c15177p-10, 0x1.a01a019cb159p-16,
  -0x1.27e4f809c52adp-22, 0x1.1ee9ebdb4b1c4p-29, -0x1.8fae9be8838d4p-37};
