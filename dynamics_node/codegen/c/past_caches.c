/* Copies numbers past the caches: others would first read the memory that is overwritten, which takes as long again.
   Whole vectors where they are aligned, and single numbers around them: other stores to their lines would send these to
   memory in parts. FLUSH makes them visible to other threads. */
#if defined __x86_64__ && !defined __clang__
typedef long long line __attribute__((vector_size(VECTOR_BYTES)));
#if VECTOR_BYTES == 64
#define PAST_CACHES(to, x) __builtin_ia32_movntdq512((line *)(to), x)
#elif VECTOR_BYTES == 32
#define PAST_CACHES(to, x) __builtin_ia32_movntdq256((line *)(to), x)
#else
#define PAST_CACHES(to, x) __builtin_ia32_movntdq((line *)(to), x)
#endif
#define FLUSH __builtin_ia32_sfence()
static inline void one_past_caches(number *to, const number *from)
{
  long long eight;
  int four;
  if (sizeof(number) == sizeof eight) {
    memcpy(&eight, from, sizeof(number));
    __builtin_ia32_movnti64((long long *)to, eight);
  } else {
    memcpy(&four, from, sizeof four);
    __builtin_ia32_movnti((int *)to, four);
  }
}

static void copy_past_caches(number *to, const number *from, long size)
{
  const long whole = sizeof(line) / sizeof(number);
  for (; size > 0 && (__UINTPTR_TYPE__)to % sizeof(line); --size) one_past_caches(to++, from++);
  for (; size >= whole; size -= whole, to += whole, from += whole) {
    line x;
    memcpy(&x, from, sizeof x);
    PAST_CACHES(to, x);
  }
  for (; size > 0; --size) one_past_caches(to++, from++);
}

/* A vector to an address that is a multiple of 16. */
static inline void vector_past_caches(number *to, vector x)
{
  typedef long long chunk __attribute__((vector_size(16)));
  if ((__UINTPTR_TYPE__)to % sizeof(line) == 0) {
    PAST_CACHES(to, (line)x);
    return;
  }
  chunk parts[sizeof x / 16];
  memcpy(parts, &x, sizeof x);
#pragma GCC unroll 4
  for (unsigned k = 0; k < sizeof x / 16; ++k) __builtin_ia32_movntdq((chunk *)to + k, parts[k]);
}
#else
#define FLUSH (void)0
#define vector_past_caches(to, x) memcpy(to, &(x), sizeof(vector))
#define copy_past_caches(to, from, size) memcpy(to, from, (size) * sizeof(number))
#endif
