/* A Program that is a stage of a step in time, run over many steps of many states, LANES of them in a vector. Its inputs
   are what stages carry on: Q_SIZE and QD_SIZE numbers of the state, others up to CARRIED that are zero at the start of a
   step; CONTROL numbers of a step; COEFFICIENTS of a stage; SAME numbers for all. Its outputs are what is carried on, and
   LIMITS numbers of health. */
enum { CONTROL_AT = CARRIED, STAGE_AT = CONTROL_AT + CONTROL, SAME_AT = STAGE_AT + COEFFICIENTS };

static inline void read_lanes(const number *from, long stride, int own, int size, vector *restrict to)
{
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < LANES; ++j) to[i][j] = from[(j < own ? j : own - 1) * stride + i];
}

static inline void write_lanes(const vector *restrict from, int size, number *to, long stride, int own)
{
  for (int j = 0; j < own; ++j)
    for (int i = 0; i < size; ++i) to[j * stride + i] = from[i][j];
}

/* All bits set in the lanes where what a stage has left is not finite, or health is beyond its limits. */
static inline bits failed(const vector *y)
{
  vector sum = {0};
  for (int i = 0; i < CARRIED; ++i) sum += y[i] - y[i];
  bits good = sum == 0;
  for (int i = 0; i < LIMITS; ++i) good &= y[CARRIED + i] <= (number)limit[i];
  return ~good;
}

static inline vector chosen(bits first, vector a, vector b)
{
  return (vector)((first & (bits)a) | (~first & (bits)b));
}

/* States from .. to - 1. control: (states, steps, CONTROL); stage: (stages, COEFFICIENTS); q, qd: (states, steps + 1,
   their size), which begin with the start. From the step on that fails, the results of a state are NaN; others do not
   notice, for it stays where it was. */
int rollout(long from, long to, long steps, long stages, const number *control, const number *stage, const number *same,
  number *q, number *qd)
{
  const long q_stride = (steps + 1) * Q_SIZE, qd_stride = (steps + 1) * QD_SIZE;
  MEMORY_X
  MEMORY_Y
  for (int i = 0; i < SAME; ++i) x[SAME_AT + i] = (vector){0} + same[i];
  for (long k = from; k < to; k += LANES) {
    const int own = to - k < LANES ? to - k : LANES;
    number *q_t = q + k * q_stride, *qd_t = qd + k * qd_stride;
    const number *control_t = control + k * steps * CONTROL;
    bits bad = {0};
    for (int i = Q_SIZE + QD_SIZE; i < CARRIED; ++i) x[i] = (vector){0};
    read_lanes(q_t, q_stride, own, Q_SIZE, x);
    read_lanes(qd_t, qd_stride, own, QD_SIZE, x + Q_SIZE);
    for (long t = 0; t < steps; ++t, control_t += CONTROL) {
      read_lanes(control_t, steps * CONTROL, own, CONTROL, x + CONTROL_AT);
      for (long s = 0; s < stages; ++s) {
        for (int i = 0; i < COEFFICIENTS; ++i) x[STAGE_AT + i] = (vector){0} + stage[s * COEFFICIENTS + i];
        run(x, y);
        bad |= failed(y);
        for (int i = 0; i < CARRIED; ++i) x[i] = chosen(bad, x[i], y[i]);
      }
      for (int i = 0; i < Q_SIZE + QD_SIZE; ++i) y[i] = chosen(bad, (vector){0} + (number)__builtin_nan(""), x[i]);
      write_lanes(y, Q_SIZE, q_t += Q_SIZE, q_stride, own);
      write_lanes(y + Q_SIZE, QD_SIZE, qd_t += QD_SIZE, qd_stride, own);
    }
  }
  return 0;
}
