/* Sine and cosine without branches: an angle is reduced by multiples of pi/2 in three parts (Cody and Waite; FMA keeps
   every digit of the products), then polynomials. Within 2 units in the last place up to LARGE, wrong beyond: whoever
   calls marks such a state. */
#if FLOAT64
#define LARGE 0x1p16 /* rad */
#define MOST 0x1.fffffffffffffp1023
#define QUARTERS_PER_RADIAN 0x1.45f306dc9c883p-1
#define QUARTER_1 0x1.921fb54442d18p0
#define QUARTER_2 0x1.1a62633145c07p-54
#define QUARTER_3 -0x1.f1976b7ed8fbcp-110
#define ROUNDING 0x1.8p52 /* added, it leaves an integer in the low bits */
#define TO_SIGN 63        /* moves bit 0 to the sign */

FUNCTION real sine_near_zero(real r, real z)
{
  const real a = FMA(z, FMA(z, 0x1.5d93a5acfd57cp-33, -0x1.ae5e68a2b9cebp-26), 0x1.71de357b1fe7dp-19);
  return FMA(MUL(r, z), FMA(z, FMA(z, FMA(z, a, -0x1.a01a019c161d5p-13), 0x1.111111110f8a6p-7), -0x1.5555555555549p-3), r);
}

FUNCTION real cosine_near_zero(real z)
{
  const real a = FMA(z, FMA(z, -0x1.8fae9be8838d4p-37, 0x1.1ee9ebdb4b1c4p-29), -0x1.27e4f809c52adp-22);
  const real b = FMA(z, FMA(z, FMA(z, a, 0x1.a01a019cb159p-16), -0x1.6c16c16c15177p-10), 0x1.555555555554cp-5);
  return FMA(z, FMA(z, b, -0.5), 1.0);
}
#else
#define LARGE 0x1p12f /* rad */
#define MOST 0x1.fffffep127f
#define QUARTERS_PER_RADIAN 0x1.45f306p-1f
#define QUARTER_1 0x1.921fb6p0f
#define QUARTER_2 -0x1.777a5cp-25f
#define QUARTER_3 -0x1.ee59dap-50f
#define ROUNDING 0x1.8p23f
#define TO_SIGN 31

FUNCTION real sine_near_zero(real r, real z)
{
  return FMA(MUL(r, z), FMA(z, FMA(z, -0x1.993d72p-13f, 0x1.11072ep-7f), -0x1.555546p-3f), r);
}

FUNCTION real cosine_near_zero(real z)
{
  const real b = FMA(z, FMA(z, 0x1.99f2dep-16f, -0x1.6c0c58p-10f), 0x1.55554ap-5f);
  return FMA(z, FMA(z, b, -0.5f), 1.0f);
}
#endif

/* Of r, what is left of an angle when its quarter turns are off; their number is in the low bits of `shifted`. A half
   turn is added to the sign. */
FUNCTION void turned(real r, real shifted, real *sine, real *cosine)
{
  const bits quarters = BITS(shifted), half_turn = quarters >> 1 << TO_SIGN;
  const int odd = (int)quarters & 1;
  const real z = MUL(r, r), s = sine_near_zero(r, z), c = cosine_near_zero(z);
  *sine = FROM_BITS(BITS(odd ? c : s) + half_turn);
  *cosine = FROM_BITS(BITS(odd ? -s : c) + half_turn);
}

FUNCTION real reduced(real x, real k)
{
  return FMA(k, -(QUARTER_3), FMA(k, -(QUARTER_2), FMA(k, -(QUARTER_1), x)));
}

FUNCTION void sincos_of(real x, real *sine, real *cosine)
{
  const real shifted = FMA(x, QUARTERS_PER_RADIAN, ROUNDING);
  turned(reduced(x, shifted - ROUNDING), shifted, sine, cosine);
}

/* Of x and what is added when whole turns are off: a large angle would swallow its digits. */
FUNCTION void sincos_of_sum(real x, real more, real *sine, real *cosine)
{
  const real shifted = FMA(x + more, QUARTERS_PER_RADIAN, ROUNDING);
  turned(reduced(x, shifted - ROUNDING) + more, shifted, sine, cosine);
}

#define EXCEEDS(x, most) (!(ABS(x) <= (most))) /* true of NaN as well */
