/* Vectors of LANES doubles. */
typedef double number;
typedef double vector __attribute__((vector_size(VECTOR_BYTES)));
typedef long long bits __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(number) };
#define IN_CHUNK(chunk, x) x, x
#define MIXED(chunk, half) 2 * chunk + half, LANES + 2 * chunk + half
#define WHOLE(chunk) 2 * chunk, 2 * chunk + 1
#define NUMBER_FORMAT 'd'
#define SIN sin
#define COS cos
#define ROUNDING 0x1.8p52 /* added, it leaves an integer in the low bits */
#define TO_SIGN 63 /* moves bit 0 to the sign */
