/* A step with contacts, run over many steps of many states, LANES of them in a vector. The first half of it has the
   inputs Q_SIZE and QD_SIZE numbers of the state, CONTROL of a step and SAME for all; the second takes CROSSING numbers of
   the first and ROWS impulses to the next state. */
enum { CONTROL_AT = Q_SIZE + QD_SIZE, SAME_AT = CONTROL_AT + CONTROL };

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

/* The control of a step: torques; or those of PD loops, see loop_torques. */
static inline void read_control(const number *from, long stride, int own, long width, const number *gains,
  vector *restrict x)
{
#if LOOPS
  vector control[LOOPS + QD_SIZE];
  read_lanes(from, stride, own, width, control);
  loop_torques(gains, control, width, x[SAME_AT], x, x + Q_SIZE, x + CONTROL_AT);
#else
  (void)gains;
  read_lanes(from, stride, own, width, x + CONTROL_AT);
#endif
}

/* States from .. to - 1. control: (states, steps, width); gains: of the LOOPS, if any; q, qd: (states, steps + 1, their size), which begin with the
   start; force: (states, steps, 3 TOUCHES); rest: (states, steps), the residuals. From the step on that fails, the results
   of a state are NaN; others do not notice. */
int rollout(long from, long to, long steps, long sweeps, long width, const number *control, const number *gains,
  const number *same, number *q, number *qd, number *force, number *rest)
{
  const long q_stride = (steps + 1) * Q_SIZE, qd_stride = (steps + 1) * QD_SIZE, f_stride = steps * 3 * TOUCHES;
  const vector nan = (vector){0} + (number)__builtin_nan("");
  MEMORY_X
  MEMORY_Y
  MEMORY_Z
  MEMORY_W
  for (int i = 0; i < SAME; ++i) x[SAME_AT + i] = (vector){0} + same[i];
  for (long k = from; k < to; k += LANES) {
    const int own = to - k < LANES ? to - k : LANES;
    number *q_t = q + k * q_stride, *qd_t = qd + k * qd_stride;
    bits bad = {0};
    vector p[ROWS + 1], part[2 * JOINTS + 1];
    for (int i = 0; i < ROWS; ++i) p[i] = (vector){0};
    for (int i = 0; i < 2 * JOINTS; ++i) part[i] = (vector){0};
    read_lanes(q_t, q_stride, own, Q_SIZE, x);
    read_lanes(qd_t, qd_stride, own, QD_SIZE, x + Q_SIZE);
    for (long t = 0; t < steps; ++t) {
      read_control(control + (k * steps + t) * width, steps * width, own, width, gains, x);
      run(x, y);
      const vector dt = x[SAME_AT], left = impulses(y, dt, sweeps, p, part);
      for (int i = 0; i < CROSSING; ++i) z[i] = y[CROSSING_AT + i];
      for (int i = 0; i < ROWS; ++i) z[CROSSING + i] = p[i];
      second(z, w);
      vector sum = {0};
      for (int i = 0; i < CONTROL_AT; ++i) sum += w[i] - w[i];
      bad |= ~(sum == 0);
      for (int i = 0; i < SLOPES; ++i) bad |= ~(y[STEEP_AT + i] <= (number)STEEP);
      for (int i = 0; i < CONTROL_AT; ++i) x[i] = chosen(bad, x[i], w[i]);
      for (int i = 0; i < ROWS; ++i) p[i] = chosen(bad, (vector){0}, p[i]);
      for (int i = 0; i < 2 * JOINTS; ++i) part[i] = chosen(bad, (vector){0}, part[i]);
      for (int i = 0; i < CONTROL_AT; ++i) w[i] = chosen(bad, nan, x[i]);
      write_lanes(w, Q_SIZE, q_t += Q_SIZE, q_stride, own);
      write_lanes(w + Q_SIZE, QD_SIZE, qd_t += QD_SIZE, qd_stride, own);
      for (int i = 0; i < 3 * TOUCHES; ++i) z[i] = chosen(bad, nan, p[i] / dt);
      write_lanes(z, 3 * TOUCHES, force + k * f_stride + t * 3 * TOUCHES, f_stride, own);
      z[0] = chosen(bad, nan, left);
      write_lanes(z, 1, rest + k * steps + t, steps, own);
    }
  }
  return 0;
}
