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

/* The velocity that removes a penetration. depth: over dt. */
static inline vector pushed(vector depth) { return less_of((number)PUSHED * depth, (vector){0} + (number)PUSH); }

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

/* L D L^T of the block of a touch in the order z, x, y: inverse pivots and factors; share: for its tangents. */
typedef struct { vector z, x, y, xz, yz, yx, share; } block;

static inline vector inverse(vector pivot, vector entry, vector least)
{
  return chosen(entry > least, 1 / greater_of(pivot, (number)SMALLEST_PIVOT * entry), (vector){0});
}

static inline block block_of(const vector *A, int i)
{
  const vector a = A[i * ROWS + i], b = A[(i + 1) * ROWS + i + 1], c = A[(i + 2) * ROWS + i + 2];
  const vector ab = A[i * ROWS + i + 1], ac = A[i * ROWS + i + 2], bc = A[(i + 1) * ROWS + i + 2];
  const vector least = (number)SMALLEST_ENTRY * (a + b + c), half = (number)0.5 * (a - b);
  const vector largest = (number)0.5 * (a + b) + root(half * half + ab * ab);
  block t;
  t.z = inverse(c, c, least);
  t.xz = ac * t.z;
  t.yz = bc * t.z;
  t.x = inverse(a - t.xz * ac, a, least);
  const vector rest = ab - t.xz * bc;
  t.yx = rest * t.x;
  t.y = inverse(b - t.yz * bc - t.yx * rest, b, least);
  t.share = inverse(largest, largest, least);
  return t;
}

static inline void touch(const vector *A, const vector *v, vector *p, const block *t, int i, vector target, number mu,
  vector *residual)
{
  const int x = i, y = i + 1, z = i + 2;
  const vector zero = {0}, px = p[x], py = p[y], pz = p[z];
  const vector wx = row_velocity(A, v, p, x), wy = row_velocity(A, v, p, y), wz = row_velocity(A, v, p, z) - target;
  const vector a = A[z * ROWS + x], b = A[z * ROWS + y], own = A[z * ROWS + z];
  const vector rx = wx - t->xz * wz, ry = wy - t->yz * wz - t->yx * rx;
  const vector sy = -ry * t->y, sx = -rx * t->x - t->yx * sy;
  const vector stop_x = px + sx, stop_y = py + sy, stop_z = pz + (-wz * t->z - t->xz * sx - t->yz * sy);
  const vector free = wz - (a * px + b * py + own * pz), bound = mu * stop_z;
  const bits sticks = (free < 0) & (stop_z >= 0) & (stop_x * stop_x + stop_y * stop_y <= bound * bound);
  vector normal = greater_of(zero, pz - wz * t->z);
  const vector tx = px - (wx + a * (normal - pz)) * t->share, ty = py - (wy + b * (normal - pz)) * t->share;
  const vector length = root(tx * tx + ty * ty), scale = 1 / greater_of(length, zero + (number)TINY);
  const bits slides = length > mu * normal;
  const vector along = own + mu * (a * tx + b * ty) * scale;
  const bits ahead = slides & (along > (number)WEDGED * own);
  normal = chosen(ahead, greater_of(zero, -free / chosen(ahead, along, zero + 1)), normal);
  const vector within = chosen(slides, mu * normal * scale, zero + 1);
  p[x] = chosen(sticks, stop_x, within * tx);
  p[y] = chosen(sticks, stop_y, within * ty);
  p[z] = chosen(sticks, stop_z, normal);
  *residual = greater_of(*residual, greater_of(size_of(p[x] - px), greater_of(size_of(p[y] - py), size_of(p[z] - pz))));
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

/* y: outputs of the first half; p (ROWS), part (2 JOINTS): from the step before, and those of this one. */
static vector impulses(const vector *y, vector dt, long sweeps, vector *restrict p, vector *restrict part)
{
  MEMORY_A
  const vector *v = y + VELOCITY_AT;
  block every[TOUCHES + 1];
  vector target[TOUCHES + 1], share[JOINTS + 1], low[JOINTS + 1], high[JOINTS + 1], residual = {0};
  for (int i = 0, n = 0; i < ROWS; ++i)
    for (int j = 0; j <= i; ++j, ++n) A[i * ROWS + j] = A[j * ROWS + i] = y[n];
  for (int c = 0; c < TOUCHES; ++c) {
    every[c] = block_of(A, 3 * c);
    const vector gap = y[GAP_AT + c], approach = y[APPROACH_AT + c];
    target[c] = chosen(gap > 0, -gap, pushed(-gap));
    const bits hits = (approach < (number)-SLOW) & (gap + approach < 0);
    target[c] = greater_of(target[c], chosen(hits, -(number)restitution[c] * approach, target[c]));
  }
  for (int k = 0; k < JOINTS; ++k) {
    const int i = 3 * TOUCHES + k;
    share[k] = 1 / A[i * ROWS + i];
    low[k] = chosen(y[LOW_AT + k] > 0, pushed(y[LOW_AT + k]), y[LOW_AT + k]);
    high[k] = chosen(y[HIGH_AT + k] < 0, -pushed(-y[HIGH_AT + k]), y[HIGH_AT + k]);
  }
  for (long s = 0; s < sweeps; ++s) {
    residual = (vector){0};
    for (int c = 0; c < TOUCHES; ++c) touch(A, v, p, every + c, 3 * c, target[c], (number)friction[c], &residual);
    for (int k = 0; k < JOINTS; ++k) {
      const int i = 3 * TOUCHES + k;
      joint(A, v, p, part + 2 * k, share[k], i, (number)dry[k] * dt, low[k], high[k], &residual);
    }
  }
  return residual;
}
