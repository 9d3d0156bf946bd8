/* Vectors as wide as the registers of the target, at most WIDEST bytes: AVX-512 64, AVX 32, SSE2 and NEON 16. A chunk
   is 16 bytes of a vector. */
#ifndef WIDEST
#define WIDEST 64
#endif
#if defined __AVX512F__ && WIDEST >= 64
#define VECTOR_BYTES 64
#define EACH_CHUNK(of, x) of(0, x), of(1, x), of(2, x), of(3, x)
#elif defined __AVX__ && WIDEST >= 32
#define VECTOR_BYTES 32
#define EACH_CHUNK(of, x) of(0, x), of(1, x)
#else
#define VECTOR_BYTES 16
#define EACH_CHUNK(of, x) of(0, x)
#endif
#define IN_ALL_LANES(x) {EACH_CHUNK(IN_CHUNK, x)}
#define ZERO ((vector){0})
