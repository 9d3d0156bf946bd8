/* The impulses of a step, LANES states in a vector: see codegen/contact_solver.py, which defines them. */

FUNCTION vector greater_of(vector a, vector b) { return chosen(a > b, a, b); }
FUNCTION vector less_of(vector a, vector b) { return chosen(a < b, a, b); }
FUNCTION vector size_of(vector a) { return greater_of(a, -a); }

/* The velocity that removes a penetration. depth: over dt. */
FUNCTION vector pushed(vector depth) { return less_of((number)PUSHED * depth, ZERO + (number)PUSH); }

/* L D L^T of the block of a touch in the order z, x, y: inverse pivots and factors; share: for its tangents. */
typedef struct { vector z, x, y, xz, yz, yx, share; } block;

FUNCTION vector inverse(vector pivot, vector entry, vector least)
{
  return chosen(entry > least, 1 / greater_of(pivot, (number)SMALLEST_PIVOT * entry), ZERO);
}

FUNCTION block block_of(const vector *A, int i)
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

/* w: velocities of the rows, which stay v + A p. Rows that change in no lane cost nothing: zero times a number leaves
   the other lanes as they are. */
FUNCTION void touch(const vector *A, vector *w, vector *p, const block *t, int rows, int i, vector target, number mu,
  vector *residual)
{
  const int x = i, y = i + 1, z = i + 2;
  const vector zero = {0}, px = p[x], py = p[y], pz = p[z];
  const vector wx = w[x], wy = w[y], wz = w[z] - target;
  if (!in_any_lane((wz < 0) | (px != 0) | (py != 0) | (pz != 0))) return;
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
  const vector dx = p[x] - px, dy = p[y] - py, dz = p[z] - pz;
  *residual = greater_of(*residual, greater_of(size_of(dx), greater_of(size_of(dy), size_of(dz))));
  for (int j = 0; j < rows; ++j) w[j] += A[x * ROWS + j] * dx + A[y * ROWS + j] * dy + A[z * ROWS + j] * dz;
}

/* part: the impulses of dry friction, at most `most`, and of the limits, whose sum is p of the row. */
FUNCTION void joint(const vector *A, vector *w, vector *p, vector *part, vector share, int rows, int i, number dry,
  vector dt, vector low, vector high, vector *residual)
{
  const vector now = w[i], zero = {0}, most = dry * dt;
  if (dry == 0 && !in_any_lane((now < low) | (now > high) | (part[1] != 0))) return;
  const vector rubbed = less_of(most, greater_of(-most, part[0] - now * share)), change = rubbed - part[0];
  const vector free = part[1] - (now + A[i * ROWS + i] * change) * share;
  const vector stopped = greater_of(zero, free + low * share) + less_of(zero, free + high * share);
  const vector both = change + (stopped - part[1]);
  *residual = greater_of(*residual, greater_of(size_of(change), size_of(stopped - part[1])));
  p[i] += both;
  part[0] = rubbed;
  part[1] = stopped;
  for (int j = 0; j < rows; ++j) w[j] += A[i * ROWS + j] * both;
}

/* The velocities between which the limits are, and those of the normals of touches. m: the memory of a step. */
FUNCTION void step_targets(const vector *m, vector *restrict target, vector *restrict low, vector *restrict high)
{
  for (int c = 0; c < TOUCHES; ++c) {
    const vector gap = m[GAP_AT + c], approach = m[APPROACH_AT + c];
    target[c] = chosen(gap > 0, -gap, pushed(-gap));
    const bits hits = (approach < (number)-SLOW) & (gap + approach < 0);
    target[c] = greater_of(target[c], chosen(hits, -(number)restitution[c] * approach, target[c]));
  }
  for (int k = 0; k < JOINTS; ++k) {
    low[k] = chosen(m[LOW_AT + k] > 0, pushed(m[LOW_AT + k]), m[LOW_AT + k]);
    high[k] = chosen(m[HIGH_AT + k] < 0, -pushed(-m[HIGH_AT + k]), m[HIGH_AT + k]);
  }
}

/* A: the first rows of the matrix, whose lower triangle is `triangle`, from row `from` on. */
FUNCTION void fill(vector *restrict A, const vector *triangle, int from, int to)
{
  for (int i = from, n = 0; i < to; ++i)
    for (int j = 0; j <= i; ++j, ++n) A[i * ROWS + j] = A[j * ROWS + i] = triangle[n];
}

/* w with the impulses of the step before, less what would add energy: of p and part remains the share, 0 to 1, that leaves
   the least. */
FUNCTION void begin(const vector *A, int rows, const vector *target, vector *restrict w, vector *restrict p,
  vector *restrict part)
{
  vector more[ROWS + 1], work = ZERO, square = ZERO;
  for (int i = 0; i < rows; ++i) more[i] = ZERO;
  for (int i = 0; i < rows; ++i)
    if (in_any_lane(p[i] != 0))
      for (int j = 0; j < rows; ++j) more[j] += A[i * ROWS + j] * p[i];
  for (int c = 0; c < TOUCHES; ++c) work -= p[3 * c + 2] * target[c];
  for (int i = 0; i < rows; ++i) {
    work += p[i] * w[i];
    square += p[i] * more[i];
  }
  const vector kept = less_of(ZERO + 1, greater_of(ZERO, -work / greater_of(square, ZERO + (number)TINY)));
  for (int i = 0; i < rows; ++i) {
    p[i] *= kept;
    w[i] += kept * more[i];
  }
  for (int i = 0; i < 2 * (rows - 3 * TOUCHES); ++i) part[i] *= kept;
}

/* The first rows alone. w: their velocities without impulses; p (ROWS), part (2 JOINTS): from the step before, and those
   of this one. */
FUNCTION vector impulses(const vector *A, int rows, vector dt, long sweeps, const vector *target, const vector *low,
  const vector *high, vector *restrict w, vector *restrict p, vector *restrict part)
{
  block every[TOUCHES + 1];
  vector share[JOINTS + 1], residual = {0};
  for (int c = 0; c < TOUCHES; ++c) every[c] = block_of(A, 3 * c);
  for (int i = 3 * TOUCHES; i < rows; ++i) share[i - 3 * TOUCHES] = 1 / A[i * ROWS + i];
  begin(A, rows, target, w, p, part);
  for (long s = 0; s < sweeps; ++s) {
    residual = ZERO;
    for (int c = 0; c < TOUCHES; ++c) touch(A, w, p, every + c, rows, 3 * c, target[c], (number)friction[c], &residual);
    for (int i = 3 * TOUCHES; i < rows; ++i) {
      const int k = i - 3 * TOUCHES;
      joint(A, w, p, part + 2 * k, share[k], rows, i, (number)dry[k], dt, low[k], high[k], &residual);
    }
  }
  return residual;
}
