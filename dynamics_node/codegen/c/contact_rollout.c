/* A step with contacts, run over many steps of many states, LANES of them in a vector. Its parts share the memory m, which
   begins with Q_SIZE and QD_SIZE numbers of the state, CONTROL of a step, and SAME for all. */
enum { CONTROL_AT = Q_SIZE + QD_SIZE, SAME_AT = CONTROL_AT + CONTROL };

/* The control of a step: torques; or those of PD loops, see loop_torques. */
FUNCTION void read_control(const number *from, long stride, int own, long width, const number *gains,
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

/* A step from the memory m to the state `after`, with the impulses p and part from the step before, which it replaces. First
   the rows of limits are left out; a lane that passes none is done. The rest of the rows costs nothing where all are.
   Returns the residual. */
FUNCTION vector step(vector *restrict m, long sweeps, vector *restrict p, vector *restrict part, vector *restrict after)
{
  MEMORY_A
  const vector dt = m[SAME_AT], zero = {0};
  vector target[TOUCHES + 1], low[JOINTS + 1], high[JOINTS + 1], w[ROWS + 1], left;
  enum { DRY = ALWAYS - 3 * TOUCHES };
  part0(m, m + PART0_AT);
  step_targets(m, target, low, high);
  fill(A, m + A_AT, 0, ALWAYS);
  for (int i = 0; i < ALWAYS; ++i) w[i] = m[VELOCITY_AT + i];
#if ROWS > ALWAYS
  vector p_all[ROWS], part_all[2 * JOINTS];
  for (int i = 0; i < ROWS; ++i) p_all[i] = p[i];
  for (int i = 0; i < 2 * JOINTS; ++i) part_all[i] = part[i];
#endif
  left = impulses(A, ALWAYS, dt, sweeps, target, low, high, w, p, part);
  for (int i = 0; i < ALWAYS; ++i) m[IMPULSES_AT + i] = p[i];
  part1(m, m + PART1_AT);
  for (int i = 0; i < CONTROL_AT; ++i) after[i] = m[Q_AFTER_AT + i];
#if ROWS > ALWAYS
  bits passed = {0};
  for (int k = DRY; k < JOINTS; ++k) passed |= (m[REACHED_AT + k - DRY] < low[k]) | (m[REACHED_AT + k - DRY] > high[k]);
  for (int i = ALWAYS; i < ROWS; ++i) p[i] = zero;
  for (int i = 2 * DRY; i < 2 * JOINTS; ++i) part[i] = zero;
  if (in_any_lane(passed)) {
    part2(m, m + PART2_AT);
    fill(A, m + A_MORE_AT, ALWAYS, ROWS);
    for (int i = 0; i < ROWS; ++i) w[i] = m[i < ALWAYS ? VELOCITY_AT + i : VELOCITY_MORE_AT + i - ALWAYS];
    left = chosen(passed, impulses(A, ROWS, dt, sweeps, target, low, high, w, p_all, part_all), left);
    for (int i = 0; i < ROWS; ++i) m[ALL_IMPULSES_AT + i] = p_all[i];
    part3(m, m + PART3_AT);
    for (int i = 0; i < CONTROL_AT; ++i) after[i] = chosen(passed, m[ALL_Q_AT + i], after[i]);
    for (int i = 0; i < ROWS; ++i) p[i] = chosen(passed, p_all[i], p[i]);
    for (int i = 0; i < 2 * JOINTS; ++i) part[i] = chosen(passed, part_all[i], part[i]);
  }
#endif
  return left;
}

/* States from .. to - 1. control: (states, steps, width); gains: of the LOOPS, if any; q, qd: (states, steps + 1, their
   size), which begin with the start; force: (states, steps, 3 TOUCHES); rest: (states, steps), the residuals. From the step
   on that fails, the results of a state are NaN; others do not notice. */
EXPORTED int rollout(long from, long to, long steps, long sweeps, long width, const number *control, const number *gains,
  const number *same, number *q, number *qd, number *force, number *rest)
{
  const long q_stride = (steps + 1) * Q_SIZE, qd_stride = (steps + 1) * QD_SIZE, f_stride = steps * 3 * TOUCHES;
  const vector nan = NO_RESULT;
  MEMORY_M
  vector after[CONTROL_AT], z[CONTROL_AT + 3 * TOUCHES + 1];
  for (int i = 0; i < SAME; ++i) m[SAME_AT + i] = ZERO + same[i];
  for (long k = from; k < to; k += LANES) {
    const int own = to - k < LANES ? to - k : LANES;
    number *q_t = q + k * q_stride, *qd_t = qd + k * qd_stride;
    bits bad = {0};
    vector p[ROWS + 1], part[2 * JOINTS + 1];
    for (int i = 0; i < ROWS; ++i) p[i] = ZERO;
    for (int i = 0; i < 2 * JOINTS; ++i) part[i] = ZERO;
    read_lanes(q_t, q_stride, own, Q_SIZE, m);
    read_lanes(qd_t, qd_stride, own, QD_SIZE, m + Q_SIZE);
    for (long t = 0; t < steps; ++t) {
      read_control(control + (k * steps + t) * width, steps * width, own, width, gains, m);
      const vector left = step(m, sweeps, p, part, after);
      vector sum = {0};
      for (int i = 0; i < CONTROL_AT; ++i) sum += after[i] - after[i];
      bad |= NOT(sum == 0);
      for (int i = 0; i < SLOPES; ++i) bad |= NOT(m[STEEP_AT + i] <= (number)STEEP);
      for (int i = 0; i < CONTROL_AT; ++i) m[i] = chosen(bad, m[i], after[i]);
      for (int i = 0; i < ROWS; ++i) p[i] = chosen(bad, ZERO, p[i]);
      for (int i = 0; i < 2 * JOINTS; ++i) part[i] = chosen(bad, ZERO, part[i]);
      for (int i = 0; i < CONTROL_AT; ++i) z[i] = chosen(bad, nan, m[i]);
      write_lanes(z, Q_SIZE, q_t += Q_SIZE, q_stride, own);
      write_lanes(z + Q_SIZE, QD_SIZE, qd_t += QD_SIZE, qd_stride, own);
      for (int i = 0; i < 3 * TOUCHES; ++i) z[i] = chosen(bad, nan, p[i] / m[SAME_AT]);
      write_lanes(z, 3 * TOUCHES, force + k * f_stride + t * 3 * TOUCHES, f_stride, own);
      z[0] = chosen(bad, nan, left);
      write_lanes(z, 1, rest + k * steps + t, steps, own);
    }
  }
  return 0;
}
