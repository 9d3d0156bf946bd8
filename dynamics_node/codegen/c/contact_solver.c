/* The impulses of a step, LANES states in a vector: see codegen/contact_solver.py, which defines them. */

static inline vector chosen(bits first, vector a, vector b)
{
  return (vector)((first & (bits)a) | (~first & (bits)b));
}

static inline vector greater_of(vector a, vector b) { return chosen(a > b, a, b); }
static inline vector less_of(vector a, vector b) { return chosen(a < b, a, b); }
static inline vector size_of(vector a) { return greater_of(a, -a); }

static inline vector root(vector a)
{
  for (int j = 0; j < LANES; ++j) a[j] = sizeof(number) == 8 ? __builtin_sqrt(a[j]) : __builtin_sqrtf(a[j]);
  return a;
}

static inline vector row_velocity(const vector *A, const vector *v, const vector *p, int i)
{
  vector even = v[i], odd = {0};
  const vector *row = A + i * ROWS;
  for (int j = 0; j + 1 < ROWS; j += 2) {
    even += row[j] * p[j];
    odd += row[j + 1] * p[j + 1];
  }
  return ROWS % 2 ? even + odd + row[ROWS - 1] * p[ROWS - 1] : even + odd;
}

static inline void touch(const vector *A, const vector *v, vector *p, const vector *share_of, int i, vector target,
  number mu, vector *residual)
{
  const int x = i, y = i + 1, z = i + 2;
  const vector normal = greater_of((vector){0}, p[z] - (row_velocity(A, v, p, z) - target) * share_of[z]);
  *residual = greater_of(*residual, size_of(normal - p[z]));
  p[z] = normal;
  vector first = p[x] - row_velocity(A, v, p, x) * share_of[x], second = p[y] - row_velocity(A, v, p, y) * share_of[x];
  const vector length = root(first * first + second * second), most = mu * normal;
  const vector share = chosen(length > most, most / greater_of(length, (vector){0} + (number)TINY), (vector){0} + 1);
  first *= share;
  second *= share;
  *residual = greater_of(*residual, greater_of(size_of(first - p[x]), size_of(second - p[y])));
  p[x] = first;
  p[y] = second;
}

/* part: the impulses of dry friction and of the limits, whose sum is p of the row. */
static inline void joint(const vector *A, const vector *v, vector *p, vector *part, vector share, int i, vector most,
  vector low, vector high, vector *residual)
{
  const vector now = row_velocity(A, v, p, i);
  const vector rubbed = less_of(most, greater_of(-most, part[0] - now * share)), change = rubbed - part[0];
  const vector free = part[1] - (now + A[i * ROWS + i] * change) * share;
  const vector stopped = greater_of((vector){0}, free + low * share) + less_of((vector){0}, free + high * share);
  *residual = greater_of(*residual, greater_of(size_of(change), size_of(stopped - part[1])));
  p[i] += change + stopped - part[1];
  part[0] = rubbed;
  part[1] = stopped;
}

/* y: outputs of the first half; p (ROWS), part (2 COORDINATES): from the step before, and those of this one. */
static vector impulses(const vector *y, vector dt, long sweeps, vector *restrict p, vector *restrict part)
{
  MEMORY_A
  const vector *v = y + VELOCITY_AT;
  vector target[TOUCHES + 1], share[ROWS + 1], low[COORDINATES + 1], high[COORDINATES + 1], residual = {0};
  for (int i = 0, n = 0; i < ROWS; ++i)
    for (int j = 0; j <= i; ++j, ++n) A[i * ROWS + j] = A[j * ROWS + i] = y[n];
  for (int i = 0; i < ROWS; ++i) share[i] = (number)(1 / (1 + COMPLIANCE)) / A[i * ROWS + i];
  for (int c = 0; c < TOUCHES; ++c) {
    const int i = 3 * c, j = i + 1;
    const vector a = A[i * ROWS + i], b = A[j * ROWS + j], d = A[i * ROWS + j], half = (number)0.5 * (a - b);
    share[i] = (number)(1 / (1 + COMPLIANCE)) / ((number)0.5 * (a + b) + root(half * half + d * d));
    const vector gap = y[GAP_AT + c], approach = y[APPROACH_AT + c];
    target[c] = chosen(gap > 0, -gap, (number)-PUSHED * gap);
    const bits hits = (approach < (number)-SLOW) & (gap + approach < 0);
    target[c] = greater_of(target[c], chosen(hits, -(number)restitution[c] * approach, target[c]));
  }
  for (int k = 0; k < COORDINATES; ++k) {
    low[k] = chosen(y[LOW_AT + k] > 0, (number)PUSHED * y[LOW_AT + k], y[LOW_AT + k]);
    high[k] = chosen(y[HIGH_AT + k] < 0, (number)PUSHED * y[HIGH_AT + k], y[HIGH_AT + k]);
  }
  for (long s = 0; s < sweeps; ++s) {
    residual = (vector){0};
    for (int c = 0; c < TOUCHES; ++c) touch(A, v, p, share, 3 * c, target[c], (number)friction[c], &residual);
    for (int k = 0; k < COORDINATES; ++k) {
      const int i = 3 * TOUCHES + k;
      joint(A, v, p, part + 2 * k, share[i], i, (number)dry[k] * dt, low[k], high[k], &residual);
    }
  }
  return residual;
}
