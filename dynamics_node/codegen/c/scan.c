/* The Program over rows of which each needs what the one before has left: its first `carry_size` outputs are the first
   `carry_size` inputs of the next; a row holds the other inputs, and the other outputs go to a row of `out`. Strides are in
   numbers; a negative one runs backward. 1 where the last `watched` outputs of every row are within `limits`. */
struct scan {
  long count, carry_size, row_stride, out_stride, watched;
  const double *rows;
  double *carry, *out;
  const double *limits;
};

int scan(const struct scan *of)
{
  MEMORY_X
  MEMORY_Y
  const long carry_size = of->carry_size, watched = of->watched;
  int good = 1;
  memcpy(x, of->carry, carry_size * sizeof(double));
  for (long k = 0; k < of->count; ++k) {
    memcpy(x + carry_size, of->rows + k * of->row_stride, (INPUT_SIZE - carry_size) * sizeof(double));
    run(x, y);
    memcpy(x, y, carry_size * sizeof(double));
    memcpy(of->out + k * of->out_stride, y + carry_size, (OUTPUT_SIZE - carry_size) * sizeof(double));
    for (long i = 0; i < watched; ++i) good &= y[OUTPUT_SIZE - watched + i] <= of->limits[i];
  }
  memcpy(of->carry, x, carry_size * sizeof(double));
  return good;
}
