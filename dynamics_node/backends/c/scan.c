/* The Program over rows of which each needs what the one before has left: its first `carry` outputs are the first
   `carry` inputs of the next; a row holds the other inputs, and the other outputs go to a row of `out`. Strides are in
   numbers; a negative one runs backward. 1 where the last `watched` outputs of every row are within `limits`. */
int scan(long count, long carry, const double *rows, long row_stride, double *carried, double *out, long out_stride,
  long watched, const double *limits)
{
  MEMORY double x[PADDED(INPUT_SIZE)] __attribute__((aligned(64)));
  MEMORY double y[PADDED(OUTPUT_SIZE)] __attribute__((aligned(64)));
  int good = 1;
  memcpy(x, carried, carry * sizeof(double));
  for (long k = 0; k < count; ++k) {
    memcpy(x + carry, rows + k * row_stride, (INPUT_SIZE - carry) * sizeof(double));
    run(x, y);
    memcpy(x, y, carry * sizeof(double));
    memcpy(out + k * out_stride, y + carry, (OUTPUT_SIZE - carry) * sizeof(double));
    for (long i = 0; i < watched; ++i) good &= y[OUTPUT_SIZE - watched + i] <= limits[i];
  }
  memcpy(carried, x, carry * sizeof(double));
  return good;
}
