/* Sine and cosine without branches: an angle is reduced by multiples of pi/2 in three parts (Cody and Waite; FMA keeps
   every digit of the products), then polynomials. Within 2 units in the last place up to LARGE, wrong beyond: whoever
   calls marks such a state. LARGE, QUARTERS_PER_RADIAN, REDUCED(x, n), SINE(z) and COSINE(z) are from symbolic/sines.py. */
#if FLOAT64
#define MOST 0x1.fffffffffffffp1023
#define ROUNDING 0x1.8p52 /* added, it leaves an integer in the low bits */
#define TO_SIGN 63        /* moves bit 0 to the sign */
#else
#define MOST 0x1.fffffep127f
#define ROUNDING 0x1.8p23f
#define TO_SIGN 31
#endif

/* Of r, what is left of an angle when its quarter turns are off; their number is in the low bits of `shifted`. A half
   turn is added to the sign. */
FUNCTION void turned(real r, real shifted, real *sine, real *cosine)
{
  const bits quarters = BITS(shifted), half_turn = quarters >> 1 << TO_SIGN;
  const int odd = (int)quarters & 1;
  const real z = MUL(r, r), s = FMA(MUL(r, z), SINE(z), r);
  const real c = FMA(z, FMA(z, COSINE(z), (real)-0.5), (real)1);
  *sine = FROM_BITS(BITS(odd ? c : s) + half_turn);
  *cosine = FROM_BITS(BITS(odd ? -s : c) + half_turn);
}

FUNCTION void sincos_of(real x, real *sine, real *cosine)
{
  const real shifted = FMA(x, QUARTERS_PER_RADIAN, ROUNDING);
  turned(REDUCED(x, shifted - ROUNDING), shifted, sine, cosine);
}

/* Of x and what is added when whole turns are off: a large angle would swallow its digits. */
FUNCTION void sincos_of_sum(real x, real more, real *sine, real *cosine)
{
  const real shifted = FMA(x + more, QUARTERS_PER_RADIAN, ROUNDING);
  turned(REDUCED(x, shifted - ROUNDING) + more, shifted, sine, cosine);
}

#define EXCEEDS(x, most) (!(ABS(x) <= (most))) /* true of NaN as well */
