/* The loop over the states. EACH_INPUT(DO) is DO(number, size, where it begins in `in`) for every input, EACH_OUTPUT the
   same of outputs in `last`, EACH_QUATERNION(DO) is DO(where in `in`); MEMORY_IN, MEMORY_COPY and MEMORY_LAST define what
   they are in. */
#define READ_SAME(k, size, at) if (same[k]) sum_of_same += read_same(input[k], size, in + at);
#define READ(k, size, at) \
  if (!same[k]) sum += read_rows(readable(input[k], size, first, count, copy), size, in + at);
#define ALIGNED(k, size, at) && ((__UINTPTR_TYPE__)output[k] | size * sizeof(number)) % 16 == 0
#define PLACE(k, size, at) y.row[k] = whole && past == direct ? output[k] + first * size : last + at * LANES;
#define CHECK(at) bad += not_unit(in + at);
#define WRITE_PAST(k, size, at) copy_past_caches(output[k] + first * size, y.row[k], LANES * size);
#define WRITE_REST(k, size, at) memcpy(output[k] + first * size, y.row[k], (to - first) * size * sizeof(number));

static int batch(long from, long to, long count, const number *const *input, const int *same, number *const *output)
{
  MEMORY_IN
  MEMORY_COPY
  MEMORY_LAST
  vector bad = {0}, sum_of_same = {0};
  EACH_INPUT(READ_SAME)
  const int past = count * (long)(RESULTS * sizeof(number)) > ABOVE_CACHES;
  const int direct = past && WHOLE_ROWS EACH_OUTPUT(ALIGNED);
  for (long first = from; first < to; first += LANES) {
    const int whole = to - first >= LANES;
    Results y = {.past = direct && whole};
    vector sum = sum_of_same;
    EACH_INPUT(READ)
    EACH_OUTPUT(PLACE)
    run(in, &y);
    bad += (sum - sum) + (y.sum - y.sum) + y.excess;
    EACH_QUATERNION(CHECK)
    if (whole && past && !direct) {
      EACH_OUTPUT(WRITE_PAST)
    } else if (!whole) {
      EACH_OUTPUT(WRITE_REST)
    }
  }
  if (past) FLUSH;
  return !any(bad);
}
