/* Vectors of LANES floats. */
typedef float number;
typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int bits __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(number) };
#define IN_CHUNK(chunk, x) x, x, x, x
#define MIXED(chunk, half) \
  4 * chunk + 2 * half, LANES + 4 * chunk + 2 * half, 4 * chunk + 2 * half + 1, LANES + 4 * chunk + 2 * half + 1
#define WHOLE(chunk) 4 * chunk, 4 * chunk + 1, 4 * chunk + 2, 4 * chunk + 3
#define NUMBER_FORMAT 'f'
#define SIN sinf
#define COS cosf
#define ROUNDING 0x1.8p23f /* added, it leaves an integer in the low bits */
#define TO_SIGN 31 /* moves bit 0 to the sign */
