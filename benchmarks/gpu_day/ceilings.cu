/* What a device can do at best, in the words of dialects.h: bytes copied, and chains of fused multiply-adds. */
KERNEL copy(const int count, const real *restrict from, real *restrict to)
{
  EACH_BLOCK(count) {
  EACH_THREAD {
    const int i = BLOCK * WIDTH + THREAD;
    if (i < count) {
      const real a = from[i], b = from[i + count], c = from[i + 2 * count], d = from[i + 3 * count];
      to[i] = a;
      to[i + count] = b;
      to[i + 2 * count] = c;
      to[i + 3 * count] = d;
    }
  }
  }
}

KERNEL chains(const int count, real *restrict to)
{
  EACH_BLOCK(count) {
  EACH_THREAD {
    const int i = BLOCK * WIDTH + THREAD;
    if (i < count) {
      real a = i, b = i + 1, c = i + 2, d = i + 3, e = i + 4, f = i + 5, g = i + 6, h = i + 7;
      ROLLED for (int round = 0; round < ROUNDS; ++round) {
#define STEP(x) x = FMA(x, (real)0.5, (real)1)
#define ALL STEP(a); STEP(b); STEP(c); STEP(d); STEP(e); STEP(f); STEP(g); STEP(h)
        ALL; ALL; ALL; ALL;
      }
      to[i] = a + b + c + d + e + f + g + h;
    }
  }
  }
}
