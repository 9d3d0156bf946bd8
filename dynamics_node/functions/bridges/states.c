/* A function over many states, behind its own C text: see compiled_entry.py. */
#ifdef __cplusplus
#error "C, not C++"
#endif
static const long input_size[] = {INPUT_SIZES}, output_size[] = {OUTPUT_SIZES};
enum { INPUTS = sizeof input_size / sizeof *input_size - 1, OUTPUTS = sizeof output_size / sizeof *output_size - 1 };

/* The same over vectors of states, from another library, or 0; it returns whether all states are good. */
int (*vectors)(long count, const number *const *input, number *const *output) = 0;

/* Results of a state that has none, or of which one is not finite, are NaN. */
static void one_by_one(long from, long to, const number *const *input, number *const *output)
{
  const number *in[INPUTS + 1];
  number *out[OUTPUTS + 1];
  for (long k = from; k < to; ++k) {
    for (int i = 0; i < INPUTS; ++i) in[i] = input[i] + k * input_size[i];
    for (int i = 0; i < OUTPUTS; ++i) out[i] = output[i] + k * output_size[i];
    number sum = CALL ? (number)__builtin_nan("") : 0;
    for (int i = 0; i < OUTPUTS; ++i)
      for (long n = 0; n < output_size[i]; ++n) sum += out[i][n] - out[i][n];
    if (sum == 0) continue;
    for (int i = 0; i < OUTPUTS; ++i)
      for (long n = 0; n < output_size[i]; ++n) out[i][n] = (number)__builtin_nan("");
  }
}

void states(long count, const number *const *input, number *const *output)
{
  enum { BLOCK = 256, FEW = 16 };
  const number *in[INPUTS + 1];
  number *out[OUTPUTS + 1];
  for (long k = 0; k < count; k += BLOCK) {
    const long own = count - k < BLOCK ? count - k : BLOCK;
    for (int i = 0; i < INPUTS; ++i) in[i] = input[i] + k * input_size[i];
    for (int i = 0; i < OUTPUTS; ++i) out[i] = output[i] + k * output_size[i];
    if (own < FEW || !vectors || !vectors(own, in, out)) one_by_one(k, k + own, input, output);
  }
}
