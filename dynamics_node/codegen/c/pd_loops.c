/* The torques of PD loops, LANES states in a vector: see codegen/pd_loops.py, which defines them. gains: kp, kd, limits of
   the torques, LOOPS each. control: targets, and torques besides if width is more than LOOPS. tau: the torques, then what
   they add to the inertias. */
FUNCTION void loop_torques(const number *gains, const vector *control, long width, vector dt, const vector *q,
  const vector *qd, vector *restrict tau)
{
  for (int i = 0; i < QD_SIZE; ++i) tau[i] = width > LOOPS ? control[LOOPS + i] : ZERO;
  for (int k = 0; k < LOOPS; ++k) {
    const int v = loop_v[k];
    const number kp = gains[k], kd = gains[LOOPS + k], effort = gains[2 * LOOPS + k];
    const vector wanted = tau[v] + (kp * (control[k] - q[loop_q[k]]) - kd * qd[v]), most = ZERO + effort;
    const bits above = wanted > most, below = wanted < -most;
    tau[v] = chosen(above, most, chosen(below, -most, wanted));
    tau[QD_SIZE + k] = chosen(above | below, ZERO, dt * kd);
  }
}
