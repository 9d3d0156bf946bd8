/* The Program over many states, 8 in a vector. Every input has rows of its own, `stride` doubles apart (0: the
   same row for all states); the outputs of a state lie side by side in y. A last block that is not full computes
   the last state again. */
void batch(long count, const double *const *input, const long *stride, double *restrict y)
{
  for (long k = 0; k < count; k += 8) {
    vector in[INPUT_SIZE + 1], out[OUTPUT_SIZE + 1];
    for (int i = 0, at = 0; i < ARRAYS; at += array_size[i++]) {
      const double *r[8];
      for (int j = 0; j < 8; ++j) r[j] = input[i] + stride[i] * (k + j < count ? k + j : count - 1);
      for (int n = 0; n < array_size[i]; ++n)
        in[at + n] = (vector){r[0][n], r[1][n], r[2][n], r[3][n], r[4][n], r[5][n], r[6][n], r[7][n]};
    }
    run(in, out);
    const int lanes = count - k < 8 ? count - k : 8;
    for (int j = 0; j < lanes; ++j)
      for (int n = 0; n < OUTPUT_SIZE; ++n) y[(k + j) * OUTPUT_SIZE + n] = ((const double *)(out + n))[j];
  }
}
