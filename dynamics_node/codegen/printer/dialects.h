/* What kernels are written in: C99 behind these macros, for CUDA (NVRTC) and C. Before this text stand
   FLOAT64 (0 or 1), WIDTH (threads in a block) and EXACT_RECIPROCAL (0 or 1).

   A kernel is: shared arrays; EACH_BLOCK, then phases EACH_THREAD { ... } with BARRIER between them. What one phase
   leaves to the next is in shared memory: in C the phases are loops over the threads, or, with COROUTINES, threads take
   turns from barrier to barrier, for kernels whose threads keep what they have over barriers. Nothing but FMA
   multiplies and adds with one rounding (CUDA: -fmad=false, C: -ffp-contract=off), so results are the same bits
   everywhere where divisions are exact. */
#if FLOAT64
typedef double real;
#else
typedef float real;
#endif

#if defined(__CUDACC__)
#if FLOAT64
#define FMA __fma_rn
#define MUL __dmul_rn
#define ABS fabs
#define BITS(x) (bits)__double_as_longlong(x)
#define FROM_BITS(x) __longlong_as_double((long long)(x))
typedef unsigned long long bits;
#else
#define FMA __fmaf_rn
#define MUL __fmul_rn
#define ABS fabsf
#define BITS(x) __float_as_uint(x)
#define FROM_BITS(x) __uint_as_float(x)
typedef unsigned bits;
#endif
#define KERNEL extern "C" __global__ void __launch_bounds__(WIDTH)
#define restrict __restrict__
#define SHARED __shared__
#define FUNCTION static __device__ __forceinline__
#define EACH_BLOCK(count)
#define EACH_THREAD
#define BLOCK ((int)blockIdx.x)
#define THREAD ((int)threadIdx.x)
#define BARRIER __syncthreads()
#define ROLLED _Pragma("unroll 1")
#define NO_NUMBER ((real)__int_as_float(0x7fc00000))

#else
#include <math.h>
#include <string.h>
#if FLOAT64
#define FMA __builtin_fma
#define ABS __builtin_fabs
typedef unsigned long long bits;
#else
#define FMA __builtin_fmaf
#define ABS __builtin_fabsf
typedef unsigned bits;
#endif
#ifdef COROUTINES
#include <ucontext.h>
static int BLOCK, THREAD;
static ucontext_t block_threads[WIDTH], between_turns;
#define SHARED static
#define EACH_BLOCK(count)
#define EACH_THREAD
#define BARRIER swapcontext(block_threads + THREAD, &between_turns)
#else
#define SHARED
#define EACH_BLOCK(count) for (int BLOCK = 0; BLOCK * WIDTH < (count); ++BLOCK)
#define EACH_THREAD for (int THREAD = 0; THREAD < WIDTH; ++THREAD)
#define BARRIER
#endif
#define FUNCTION static inline __attribute__((always_inline))
#define MUL(x, y) ((x) * (y))
#define KERNEL void
#define ROLLED
#define NO_NUMBER ((real)NAN)
FUNCTION bits BITS(real x)
{
  bits i;
  memcpy(&i, &x, sizeof i);
  return i;
}
FUNCTION real FROM_BITS(bits i)
{
  real x;
  memcpy(&x, &i, sizeof x);
  return x;
}
#endif

/* Fast: nearest but for one mantissa, all ones, which is one unit off. */
#if !defined(__CUDACC__) || EXACT_RECIPROCAL
FUNCTION real reciprocal(real x)
{
  return 1 / x;
}
#elif FLOAT64
FUNCTION real reciprocal(real x)
{
  real y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const real e = FMA(-x, y, 1.0);
  y = FMA(FMA(e, e, e), y, y);
  return FMA(FMA(-x, y, 1.0), y, y);
}
#else
FUNCTION real reciprocal(real x)
{
  real y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return FMA(FMA(-x, y, 1.0f), y, y);
}
#endif
