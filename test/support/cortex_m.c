/* Vectors of a Cortex-M, which turns its floating-point unit on and starts the C library. With COUNTED, main prints
   the instructions of a call: QEMU, by -icount shift=0, takes a nanosecond for each, and a tick of 25 MHz is 40. */
#include <stdint.h>
#include <stdio.h>

extern int __stack;
void _start(void);

static void reset(void)
{
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 */
  __asm__ volatile("dsb\n isb");
  _start();
}

static void stop(void)
{
  for (;;) continue;
}

__attribute__((section(".vectors"), used)) static void *const vectors[] = {
  &__stack, (void *)reset, (void *)stop, (void *)stop, (void *)stop, (void *)stop, (void *)stop,
};

#ifdef COUNTED
enum { CALLS = 1000, INSTRUCTIONS_PER_TICK = 40 };
void called(int state);
void empty(int state);
__attribute__((noinline)) void empty(int state) { __asm__ volatile("" : : "r"(state)); }

static uint32_t ticks(void (*function)(int))
{
  volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010;
  systick[1] = 0xFFFFFF;
  systick[2] = 0;
  systick[0] = 5;
  const uint32_t begin = systick[2];
  for (int k = 0; k < CALLS; ++k) function(k % 100);
  return (begin - systick[2]) & 0xFFFFFF;
}

int main(void)
{
  const uint32_t all = ticks(called), loop = ticks(empty);
  printf("%lu\n", (unsigned long)((all - loop) * INSTRUCTIONS_PER_TICK / CALLS));
  return 0;
}
#endif
