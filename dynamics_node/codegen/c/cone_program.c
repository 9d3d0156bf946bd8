/* The smallest forces of contacts within cones and bounds, LANES states in a vector: see cone_program.py. */

/* Of a number a: plus - minus = a, plus * minus = mu, plus + minus = root. */
typedef struct { vector plus, minus, root; } split;
/* u = s - z; x, y: the direction of its tangents; rates of u by s on its three axes. */
typedef struct { vector u[3], x, y, plus, minus, turn; } cone;

FUNCTION vector greater_of(vector a, vector b) { return chosen(a > b, a, b); }
FUNCTION vector less_of(vector a, vector b) { return chosen(a < b, a, b); }
FUNCTION vector size_of(vector a) { return greater_of(a, -a); }

FUNCTION split split_of(vector a, vector mu)
{
  split of;
  of.root = root(a * a + 4 * mu);
  const vector large = 0.5 * (size_of(a) + of.root), small = mu / large;
  of.plus = chosen(a > 0, large, small);
  of.minus = chosen(a > 0, small, large);
  return of;
}

/* The program of a vector of states, see `load`; K: H and the weighted rows of G, below its diagonal; the step. The rows
   are low <= g x <= high; upper, lower: their u = s - z; rates: of these by s; rests: what their equations miss. */
typedef struct {
  vector H[N][N], f[N], E[FIXED + 1][N], e[FIXED + 1], g[ROWS + 1][N], low[ROWS + 1], high[ROWS + 1], away[CONES + 1];
  vector K[N][N], D[N], R[N][FIXED + 1], S[FIXED + 1][FIXED + 1], x[N], y[FIXED + 1], right[N], pulls[N], missed[FIXED + 1];
  vector upper[ROWS + 1], lower[ROWS + 1], rates[ROWS + 1][2], rests[ROWS + 1][2];
  cone cones[CONES + 1];
} memory;

/* K = L D L^T within its profile; L replaces its lower triangle, 1 / D is D. */
FUNCTION void factor(memory *m)
{
  for (int i = 0; i < N; ++i) {
    vector pivot = m->K[i][i];
    for (int j = first[i]; j < i; ++j) {
      vector sum = m->K[i][j];
      for (int k = first[i] > first[j] ? first[i] : first[j]; k < j; ++k) sum -= m->K[i][k] * m->K[j][k];
      m->K[i][j] = sum;
    }
    for (int k = first[i]; k < i; ++k) {
      const vector product = m->K[i][k];
      m->K[i][k] *= m->D[k];
      pivot -= product * m->K[i][k];
    }
    m->D[i] = 1 / pivot;
  }
}

/* The step of x, in m->right, and of y, in m->missed, which hold the right-hand sides. */
FUNCTION void step(memory *m)
{
  vector trace = ZERO;
  factor(m);
  for (int i = 0; i < N; ++i) {
    vector row[FIXED + 1];
#pragma GCC unroll 8
    for (int j = 0; j < FIXED; ++j) row[j] = m->E[j][i];
    row[FIXED] = m->right[i];
    for (int k = first[i]; k < i; ++k)
#pragma GCC unroll 8
      for (int j = 0; j <= FIXED; ++j) row[j] -= m->K[i][k] * m->R[k][j];
#pragma GCC unroll 8
    for (int j = 0; j <= FIXED; ++j) m->R[i][j] = row[j];
  }
  for (int a = 0; a < FIXED; ++a) {
    vector row[FIXED + 1] = {{0}}, last = m->missed[a];
    for (int i = 0; i < N; ++i) {
      const vector scaled = m->D[i] * m->R[i][a];
#pragma GCC unroll 8
      for (int b = 0; b < FIXED; ++b) row[b] += scaled * m->R[i][b];
      last += scaled * m->R[i][FIXED];
    }
    for (int b = 0; b <= a; ++b) m->S[a][b] = row[b];
    m->missed[a] = last;
    trace += m->S[a][a];
  }
  for (int a = 0; a < FIXED; ++a) {
    m->S[a][a] += DAMPING * trace;
    for (int b = 0; b <= a; ++b) {
      vector sum = m->S[a][b];
      for (int k = 0; k < b; ++k) sum -= m->S[a][k] * m->S[b][k];
      m->S[a][b] = b < a ? sum * m->S[b][b] : 1 / root(sum);
    }
    for (int k = 0; k < a; ++k) m->missed[a] -= m->S[a][k] * m->missed[k];
    m->missed[a] *= m->S[a][a];
  }
  for (int a = FIXED - 1; a >= 0; --a) {
    for (int k = a + 1; k < FIXED; ++k) m->missed[a] -= m->S[k][a] * m->missed[k];
    m->missed[a] *= m->S[a][a];
  }
  for (int i = 0; i < N; ++i) {
    vector sum = m->R[i][FIXED];
#pragma GCC unroll 8
    for (int j = 0; j < FIXED; ++j) sum -= m->R[i][j] * m->missed[j];
    m->right[i] = sum * m->D[i];
  }
  for (int i = N - 1; i >= 0; --i)
    for (int k = first[i]; k < i; ++k) m->right[k] -= m->K[i][k] * m->right[i];
}

FUNCTION vector row_value(const memory *m, int r, const vector *x)
{
  vector sum = ZERO;
  for (int i = row_begin[r]; i < row_end[r]; ++i) sum += m->g[r][i] * x[i];
  return sum;
}

/* One side of a row, value + s = bound: what this misses. */
FUNCTION vector side(vector value, vector bound, vector u, vector mu, vector *rate, vector *weight, vector *force,
  vector *pull)
{
  const split of = split_of(u, mu);
  const vector scale = 1 / (of.plus + SHARE * of.root), rest = value + of.plus - bound;
  *rate = of.root * scale;
  *weight = of.minus * scale;
  *force = of.minus;
  *pull = *weight * rest;
  return rest;
}

/* Adds the forces z of the cones to the right-hand side, and their weights to K and the pulls. Returns the largest of what
   their equations miss, `rest`. */
FUNCTION vector add_cones(memory *m, vector mu, vector rest[][3])
{
  vector worst = ZERO;
  for (int c = 0; c < CONES; ++c) {
    cone *const of = m->cones + c;
    const int n = cone_normal[c], x = cone_x[c], y = cone_y[c];
    const number friction = cone_friction[c];
    const vector square = of->u[1] * of->u[1] + of->u[2] * of->u[2], length = root(square);
    const vector inverse = chosen(square > 0, 1 / length, ZERO);
    const vector bx = chosen(square > 0, of->u[1] * inverse, ZERO + 1), by = of->u[2] * inverse;
    const split p = split_of(of->u[0] + length, mu), q = split_of(of->u[0] - length, mu);
    const vector one = 1 / (p.plus + SHARE * p.root), other = 1 / (q.plus + SHARE * q.root);
    const vector both = 1 / (p.plus + q.plus + SHARE * (p.root + q.root));
    const vector a = 0.5 * (p.minus * one + q.minus * other), d = 0.5 * (p.minus * one - q.minus * other);
    const vector t = (p.minus + q.minus) * both;
    of->x = bx;
    of->y = by;
    of->plus = p.root * one;
    of->minus = q.root * other;
    of->turn = (p.root + q.root) * both;
    const vector gap = 0.5 * (p.plus + q.plus), along = 0.5 * (p.plus - q.plus);
    const vector force = 0.5 * (p.minus + q.minus), drag = 0.5 * (p.minus - q.minus);
    rest[c][0] = gap - friction * m->x[n] - m->away[c];
    rest[c][1] = along * bx - m->x[x];
    rest[c][2] = along * by - m->x[y];
    for (int k = 0; k < 3; ++k) worst = greater_of(worst, size_of(rest[c][k]));
    const vector ahead = bx * rest[c][1] + by * rest[c][2], aside = bx * rest[c][2] - by * rest[c][1];
    const vector pull = a * rest[c][0] + d * ahead, reach = d * rest[c][0] + a * ahead, turn = t * aside;
    m->right[n] += friction * force;
    m->right[x] += drag * bx;
    m->right[y] += drag * by;
    m->pulls[n] += friction * pull;
    m->pulls[x] += reach * bx - turn * by;
    m->pulls[y] += reach * by + turn * bx;
    m->K[n][n] += friction * friction * a;
    m->K[x][x] += a * bx * bx + t * by * by;
    m->K[y][y] += a * by * by + t * bx * bx;
    m->K[x > n ? x : n][x > n ? n : x] += friction * d * bx;
    m->K[y > n ? y : n][y > n ? n : y] += friction * d * by;
    m->K[x > y ? x : y][x > y ? y : x] += (a - t) * bx * by;
  }
  return worst;
}

/* The same of the rows. */
FUNCTION vector add_rows(memory *m, vector mu)
{
  vector worst = ZERO;
  for (int r = 0; r < ROWS; ++r) {
    const vector value = row_value(m, r, m->x);
    vector weight = ZERO, force = ZERO, pull = ZERO, w, z, p;
    if (row_high[r]) {
      m->rests[r][0] = side(value, m->high[r], m->upper[r], mu, &m->rates[r][0], &w, &z, &p);
      worst = greater_of(worst, size_of(m->rests[r][0]));
      weight += w;
      force -= z;
      pull -= p;
    }
    if (row_low[r]) {
      m->rests[r][1] = side(-value, -m->low[r], m->lower[r], mu, &m->rates[r][1], &w, &z, &p);
      worst = greater_of(worst, size_of(m->rests[r][1]));
      weight += w;
      force += z;
      pull += p;
    }
    for (int i = row_begin[r]; i < row_end[r]; ++i) {
      const vector scaled = weight * m->g[r][i];
      m->right[i] += force * m->g[r][i];
      m->pulls[i] += pull * m->g[r][i];
      for (int j = row_begin[r]; j <= i; ++j) m->K[i][j] += scaled * m->g[r][j];
    }
  }
  return worst;
}

/* Moves the cones and rows by the step m->right of x, where it is to. */
FUNCTION void move(memory *m, bits moves, vector rest[][3])
{
  for (int c = 0; c < CONES; ++c) {
    cone *const of = m->cones + c;
    const vector normal = cone_friction[c] * m->right[cone_normal[c]] - rest[c][0];
    const vector x = m->right[cone_x[c]] - rest[c][1], y = m->right[cone_y[c]] - rest[c][2];
    const vector ahead = of->x * x + of->y * y, aside = of->turn * (of->x * y - of->y * x);
    const vector one = 0.5 * of->plus * (normal + ahead), other = 0.5 * of->minus * (normal - ahead);
    of->u[0] += chosen(moves, one + other, ZERO);
    of->u[1] += chosen(moves, (one - other) * of->x - aside * of->y, ZERO);
    of->u[2] += chosen(moves, (one - other) * of->y + aside * of->x, ZERO);
  }
  for (int r = 0; r < ROWS; ++r) {
    const vector change = row_value(m, r, m->right);
    if (row_high[r]) m->upper[r] -= chosen(moves, m->rates[r][0] * (change + m->rests[r][0]), ZERO);
    if (row_low[r]) m->lower[r] -= chosen(moves, m->rates[r][1] * (m->rests[r][1] - change), ZERO);
  }
}

/* All bits set in the lanes whose x meets the conditions of optimality; only `possible` ones are of interest. */
FUNCTION bits optimum(memory *m, bits possible)
{
  vector rest[CONES + 1][3], mu = ZERO + FIRST_MU, worst = ZERO;
  bits done = ZERO > 1, lost = NOT(possible);
  for (int i = 0; i < N; ++i) m->x[i] = ZERO;
  for (int j = 0; j < FIXED; ++j) m->y[j] = ZERO;
  for (int turn = 0; turn < MOST_TURNS; ++turn) {
    for (int i = 0; i < N; ++i) {
      m->right[i] = -m->f[i];
      m->pulls[i] = ZERO;
#pragma GCC unroll 8
      for (int j = 0; j < FIXED; ++j) m->right[i] -= m->E[j][i] * m->y[j];
    }
    for (int i = 0; i < N; ++i)
      for (int j = first[i]; j <= i; ++j) {
        m->K[i][j] = m->H[i][j];
        m->right[i] -= m->H[i][j] * m->x[j];
        if (j < i) m->right[j] -= m->H[i][j] * m->x[i];
      }
    for (int j = 0; j < FIXED; ++j) {
      vector sum = -m->e[j];
      for (int i = 0; i < N; ++i) sum += m->E[j][i] * m->x[i];
      m->missed[j] = sum;
    }
    if (turn) {
      if (turn > 1) mu = greater_of(ZERO + LEAST_MU, less_of(0.1 * mu, greater_of(1e-4 * mu, 0.1 * worst * worst)));
      worst = greater_of(add_cones(m, mu, rest), add_rows(m, mu));
      for (int i = 0; i < N; ++i) worst = greater_of(worst, size_of(m->right[i]));
      for (int j = 0; j < FIXED; ++j) worst = greater_of(worst, size_of(m->missed[j]));
      done |= (worst < TOLERANCE) & (mu <= SMALL_MU);
      lost |= NOT(worst < 1e9);
      if (!in_any_lane(NOT(done | lost))) break;
    }
    for (int i = 0; i < N; ++i) m->right[i] += m->pulls[i];
    step(m);
    const bits moves = NOT(done);
    for (int i = 0; i < N; ++i) m->x[i] += chosen(moves, m->right[i], ZERO);
    for (int j = 0; j < FIXED; ++j) m->y[j] += chosen(moves, m->missed[j], ZERO);
    if (turn) move(m, moves, rest);
    else {
      for (int c = 0; c < CONES; ++c) {
        m->cones[c].u[0] = cone_friction[c] * m->x[cone_normal[c]] + m->away[c];
        m->cones[c].u[1] = m->x[cone_x[c]];
        m->cones[c].u[2] = m->x[cone_y[c]];
      }
      for (int r = 0; r < ROWS; ++r) {
        const vector value = row_value(m, r, m->x);
        m->upper[r] = m->high[r] - value;
        m->lower[r] = value - m->low[r];
      }
    }
  }
  return done & possible;
}

/* An entry of the array of every state; those beyond `own` repeat the last one. */
FUNCTION vector entry(const number *from, long stride, int own, long place)
{
  vector all;
  for (int j = 0; j < LANES; ++j) all[j] = from[(j < own ? j : own - 1) * stride + place];
  return all;
}

/* Fills the memory: forces in shares of *size, costs of the largest. All bits set in the lanes where torques that no force
   moves are within their limits. */
FUNCTION bits load(memory *m, const number *const *from, const long *stride, int own, vector *size)
{
#define ENTRY(of, place) entry(from[of], stride[of], own, place)
  vector square = ZERO, cost = ZERO;
  bits possible = ZERO < 1;
  for (int i = 0; i < TORQUES; ++i) {
    const vector torque = ENTRY(TAU, i);
    square += torque * torque;
  }
  for (int i = 0; i < N; ++i) cost = greater_of(cost, ENTRY(COST, i * N + i));
  *size = 1 + root(square);
  const vector share = 1 / *size, per_cost = 1 / cost;
  for (int i = 0; i < N; ++i) {
    const int place = variable[i];
    m->f[i] = ENTRY(SLOPE, place) * share * per_cost;
    for (int j = first[i]; j <= i; ++j) m->H[i][j] = ENTRY(COST, place * N + variable[j]) * per_cost;
    for (int j = 0; j < FIXED; ++j) m->E[j][i] = ENTRY(MATRIX, fixed[j] * N + place);
  }
  for (int j = 0; j < FIXED; ++j) m->e[j] = ENTRY(TAU, fixed[j]) * share;
  for (int c = 0; c < CONES; ++c) m->away[c] = 1 - ENTRY(ACTIVE, cone_contact[c]);
  for (int r = 0; r < ROWS; ++r) {
    const vector away = row_contact[r] < 0 ? ZERO : 1 - ENTRY(ACTIVE, row_contact[r]);
    for (int i = row_begin[r]; i < row_end[r]; ++i)
      m->g[r][i] = row_equation[r] < 0 ? ZERO + 1 : ENTRY(MATRIX, row_equation[r] * N + variable[i]);
    m->low[r] = ENTRY(LOWER, row_bound[r]) * share - away;
    m->high[r] = ENTRY(UPPER, row_bound[r]) * share + away;
  }
  for (int k = 0; k < UNMOVED; ++k) possible &= (ENTRY(LOWER, unmoved[k]) <= 0) & (ENTRY(UPPER, unmoved[k]) >= 0);
  return possible;
}

/* x (states, N) of the given arrays, whose states are `stride` numbers apart. */
static void cone_programs(long states, const number *const *given, const long *stride, number *x)
{
  static _Thread_local memory m;
  static _Thread_local vector result[N];
  const number *from[GIVEN];
  for (int k = 0; k < GIVEN; ++k) from[k] = given[k];
  for (long state = 0; state < states; state += LANES) {
    const int own = states - state < LANES ? states - state : LANES;
    vector size;
    const bits possible = load(&m, from, stride, own, &size), good = optimum(&m, possible);
    for (int i = 0; i < N; ++i) result[variable[i]] = chosen(good, m.x[i] * size, NO_RESULT);
    write_lanes(result, N, x + state * N, N, own);
    for (int k = 0; k < GIVEN; ++k) from[k] += LANES * stride[k];
  }
}

extern PyObject *PyBool_FromLong(long);
extern PyObject *PyLong_FromLong(long);
extern long PyLong_AsLong(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
enum { SHARED = 4 };

/* solve(count, array, ..., x): an array has `count` states along its first axis, or is one state for all. False, with
   nothing written, when an array is not as it should be. */
static PyObject *solve(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  Numbers given[GIVEN + 1];
  int same[GIVEN + 1], seen = 0, fit = number_of_arguments == GIVEN + 2;
  const long count = fit ? PyLong_AsLong(*arguments++) : 0;
  (void)self;
  for (; fit && seen < GIVEN; ++seen) fit = rows(arguments[seen], given + seen, 0, count, shape[seen], same + seen);
  if (fit) fit = rows(arguments[seen], given + seen, 1, count, shape[seen], 0), ++seen;
  if (fit) {
    const number *from[GIVEN];
    long stride[GIVEN];
    for (int k = 0; k < GIVEN; ++k) {
      from[k] = given[k].data;
      stride[k] = same[k] ? 0 : 1;
      for (int axis = 1; axis <= shape[k][0]; ++axis) stride[k] *= shape[k][axis];
    }
    void *thread = count >= SHARED ? PyEval_SaveThread() : 0;
    cone_programs(count, from, stride, given[GIVEN].data);
    if (thread) PyEval_RestoreThread(thread);
  }
  release(given, seen);
  return PyBool_FromLong(fit);
}

PyMethodDef cones_definition = {"solve", solve, FAST_CALL, "See dynamics_node/codegen/c/cone_program.py"};
