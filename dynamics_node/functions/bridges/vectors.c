
/* Up to 256 states for states.c; health, the last output, goes nowhere. */
int whole_vectors(long count, const number *const *input, number *const *output)
{
  static const int same[INPUTS + 1] = {0};
  number health[256 * (LIMITS + 1)], *place[OUTPUTS + 1];
  for (int i = 0; i < OUTPUTS; ++i) place[i] = i < OUTPUTS - (LIMITS > 0) ? output[i] : health;
  return batch(0, count, count, input, same, place);
}
