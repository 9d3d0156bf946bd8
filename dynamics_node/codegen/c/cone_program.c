/* The smallest forces of contacts within cones and bounds, one state: see cone_program.py. LANES cones, rows or columns
   are in a vector; `wide` is a row of FIXED + 1 columns. */
enum {
  COLUMNS = (N + LANES - 1) / LANES,
  WIDE = FIXED / LANES + 1,
  CONE_VECTORS = (CONES + LANES - 1) / LANES,
  ROW_VECTORS = (ROWS + LANES - 1) / LANES
};
#define AT(vectors, k) (((number *)(vectors))[k])

/* Of numbers a: plus - minus = a, plus * minus = mu, plus + minus = root. */
typedef struct { vector plus, minus, root; } split;
/* u = s - z; x, y: the direction of its tangents; rates of u by s on its three axes; what the equations miss. */
typedef struct { vector friction, away, u[3], x, y, plus, minus, turn, rest[3]; } cone;
/* A side of rows, value + s = bound, where `there` is 1: u = s - z; its rate by s; what the equations miss. */
typedef struct { vector there, bound, u, rate, rest; } side;

FUNCTION vector greater_of(vector a, vector b) { return chosen(a > b, a, b); }
FUNCTION vector size_of(vector a) { return greater_of(a, -a); }

/* NaN if one of them is not finite. */
FUNCTION number largest_of(vector a)
{
  number most = 0, nothing = 0;
  for (int j = 0; j < LANES; ++j) {
    most = a[j] > most ? a[j] : most;
    nothing += 0 * a[j];
  }
  return most + nothing;
}

FUNCTION split split_of(vector a, number mu)
{
  split of;
  of.root = root(a * a + 4 * mu);
  const vector large = 0.5 * (size_of(a) + of.root), small = mu / large;
  of.plus = chosen(a > 0, large, small);
  of.minus = chosen(a > 0, small, large);
  return of;
}

/* The program of a state, see `load`. H, K: H and the weighted rows of G, of which the upper triangle counts; E, and its
   columns; G, g, and its columns; the step. right: the gradient; pulls: what the step adds. */
typedef struct {
  vector H[N][COLUMNS], E[FIXED + 1][COLUMNS], across[N][WIDE], g[ROWS + 1][COLUMNS], down[N][ROW_VECTORS + 1];
  vector f[COLUMNS], x[COLUMNS], right[COLUMNS], pulls[COLUMNS], e[WIDE], y[WIDE], missed[WIDE];
  vector K[N][COLUMNS], R[N][WIDE], S[FIXED + 1][WIDE];
  number inverse[N];
  int begin[ROW_VECTORS + 1], end[ROW_VECTORS + 1]; /* columns of the rows of a vector */
  cone cones[CONE_VECTORS + 1];
  side low[ROW_VECTORS + 1], high[ROW_VECTORS + 1];
} memory;

/* to += scale * from, on the columns of some entries. */
FUNCTION void add(vector *to, number scale, const vector *from, int begin, int end)
{
  for (int v = begin / LANES; v <= (end - 1) / LANES; ++v) to[v] += scale * from[v];
}

/* The entries of the cones of a vector. */
FUNCTION vector of_cones(const vector *x, const int *place, int c)
{
  vector all;
#pragma GCC unroll 8
  for (int j = 0; j < LANES; ++j) all[j] = AT(x, place[c * LANES + j]);
  return all;
}

/* The values of the rows. */
FUNCTION void row_values(const memory *m, const vector *x, vector *values)
{
  for (int v = 0; v < ROW_VECTORS; ++v) {
    vector sum = ZERO;
    for (int i = m->begin[v]; i < m->end[v]; ++i) sum += AT(x, i) * m->down[i][v];
    values[v] = sum;
  }
}

/* The step of x, in m->right, and of y, in m->missed, which hold the right-hand sides. */
FUNCTION void step(memory *m)
{
  for (int i = 0; i < N; ++i) {
    for (int v = 0; v < WIDE; ++v) m->R[i][v] = m->across[i][v];
    AT(m->R[i], FIXED) = AT(m->right, i);
  }
  for (int k = 0; k < N; ++k) {
    const number inverse = m->inverse[k] = 1 / AT(m->K[k], k);
    for (int i = k + 1; i < last[k]; ++i) {
      const number share = -inverse * AT(m->K[k], i);
      add(m->K[i], share, m->K[k], i, last[k]);
#pragma GCC unroll 8
      for (int v = 0; v < WIDE; ++v) m->R[i][v] += share * m->R[k][v];
    }
  }
  number trace = 0;
  for (int a = 0; a < FIXED; ++a) {
    vector row[WIDE] = {{0}};
    for (int i = 0; i < N; ++i) {
      const number scaled = m->inverse[i] * AT(m->R[i], a);
#pragma GCC unroll 8
      for (int v = 0; v < WIDE; ++v) row[v] += scaled * m->R[i][v];
    }
#pragma GCC unroll 8
    for (int v = 0; v < WIDE; ++v) m->S[a][v] = row[v];
    AT(m->S[a], FIXED) += AT(m->missed, a);
    trace += AT(m->S[a], a);
  }
  for (int a = 0; a < FIXED; ++a) AT(m->S[a], a) += DAMPING * trace;
  number inverse[FIXED + 1];
  for (int a = 0; a < FIXED; ++a) {
    inverse[a] = 1 / AT(m->S[a], a);
    for (int b = a + 1; b < FIXED; ++b) {
      const number share = -inverse[a] * AT(m->S[a], b);
#pragma GCC unroll 8
      for (int v = 0; v < WIDE; ++v) m->S[b][v] += share * m->S[a][v];
    }
  }
  for (int a = FIXED - 1; a >= 0; --a) {
    number sum = AT(m->S[a], FIXED);
    for (int b = a + 1; b < FIXED; ++b) sum -= AT(m->S[a], b) * AT(m->missed, b);
    AT(m->missed, a) = sum * inverse[a];
  }
  for (int i = N - 1; i >= 0; --i) {
    number sum = AT(m->R[i], FIXED);
    for (int a = 0; a < FIXED; ++a) sum -= AT(m->R[i], a) * AT(m->missed, a);
    for (int k = i + 1; k < last[i]; ++k) sum -= AT(m->K[i], k) * AT(m->right, k);
    AT(m->right, i) = sum * m->inverse[i];
  }
}

/* Adds the forces z of the cones to the right-hand side, and their weights to K and the pulls. Returns the largest of what
   their equations miss. */
FUNCTION vector add_cones(memory *m, number mu)
{
  vector worst = ZERO;
  for (int v = 0; v < CONE_VECTORS; ++v) {
    cone *const of = m->cones + v;
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
    const vector force = 0.5 * (p.minus + q.minus), drag = 0.5 * (p.minus - q.minus), friction = of->friction;
    of->rest[0] = gap - friction * of_cones(m->x, cone_normal, v) - of->away;
    of->rest[1] = along * bx - of_cones(m->x, cone_x, v);
    of->rest[2] = along * by - of_cones(m->x, cone_y, v);
    for (int k = 0; k < 3; ++k) worst = greater_of(worst, size_of(of->rest[k]));
    const vector ahead = bx * of->rest[1] + by * of->rest[2], aside = t * (bx * of->rest[2] - by * of->rest[1]);
    const vector pull = friction * (a * of->rest[0] + d * ahead), reach = d * of->rest[0] + a * ahead;
    const vector forces[3] = {friction * force, drag * bx, drag * by};
    const vector pulls[3] = {pull, reach * bx - aside * by, reach * by + aside * bx};
    const vector nn = friction * friction * a, nx = friction * d * bx, ny = friction * d * by;
    const vector xx = a * bx * bx + t * by * by, yy = a * by * by + t * bx * bx, xy = (a - t) * bx * by;
    for (int j = 0; j < LANES && v * LANES + j < CONES; ++j) {
      const int c = v * LANES + j, n = cone_normal[c], x = cone_x[c], y = cone_y[c], at[3] = {n, x, y};
      for (int k = 0; k < 3; ++k) {
        AT(m->right, at[k]) += forces[k][j];
        AT(m->pulls, at[k]) += pulls[k][j];
      }
      AT(m->K[n], n) += nn[j];
      AT(m->K[x], x) += xx[j];
      AT(m->K[y], y) += yy[j];
      AT(m->K[x < n ? x : n], x < n ? n : x) += nx[j];
      AT(m->K[y < n ? y : n], y < n ? n : y) += ny[j];
      AT(m->K[y < x ? y : x], y < x ? x : y) += xy[j];
    }
  }
  return worst;
}

/* A side of rows: what it misses. */
FUNCTION vector add_side(side *of, vector value, number mu, vector *weight, vector *force, vector *pull)
{
  const split u = split_of(of->u, mu);
  const vector scale = 1 / (u.plus + SHARE * u.root);
  of->rest = of->there * (value + u.plus - of->bound);
  of->rate = u.root * scale;
  *weight = of->there * (u.minus * scale);
  *force = of->there * u.minus;
  *pull = *weight * of->rest;
  return size_of(of->rest);
}

/* The same of the rows. */
FUNCTION vector add_rows(memory *m, number mu)
{
  vector worst = ZERO, values[ROW_VECTORS + 1];
  row_values(m, m->x, values);
  for (int v = 0; v < ROW_VECTORS; ++v) {
    vector weight, force, pull, other_weight, other, other_pull;
    worst = greater_of(worst, add_side(m->high + v, values[v], mu, &weight, &force, &pull));
    worst = greater_of(worst, add_side(m->low + v, -values[v], mu, &other_weight, &other, &other_pull));
    weight += other_weight;
    force = other - force;
    pull = other_pull - pull;
    for (int j = 0; j < LANES && v * LANES + j < ROWS; ++j) {
      const int r = v * LANES + j, begin = row_begin[r], end = row_end[r];
      const vector *const g = m->g[r];
      add(m->right, force[j], g, begin, end);
      if (weight[j] < LIGHT) continue;
      add(m->pulls, pull[j], g, begin, end);
      for (int i = begin; i < end; ++i) add(m->K[i], weight[j] * AT(g, i), g, i, end);
    }
  }
  return worst;
}

/* Moves the cones and rows by the step m->right of x. */
FUNCTION void move(memory *m)
{
  vector changes[ROW_VECTORS + 1];
  for (int v = 0; v < CONE_VECTORS; ++v) {
    cone *const of = m->cones + v;
    const vector normal = of->friction * of_cones(m->right, cone_normal, v) - of->rest[0];
    const vector x = of_cones(m->right, cone_x, v) - of->rest[1], y = of_cones(m->right, cone_y, v) - of->rest[2];
    const vector ahead = of->x * x + of->y * y, aside = of->turn * (of->x * y - of->y * x);
    const vector one = 0.5 * of->plus * (normal + ahead), other = 0.5 * of->minus * (normal - ahead);
    of->u[0] += one + other;
    of->u[1] += (one - other) * of->x - aside * of->y;
    of->u[2] += (one - other) * of->y + aside * of->x;
  }
  row_values(m, m->right, changes);
  for (int v = 0; v < ROW_VECTORS; ++v) {
    m->high[v].u -= m->high[v].rate * (m->high[v].rest + changes[v]);
    m->low[v].u -= m->low[v].rate * (m->low[v].rest - changes[v]);
  }
}

/* The cones and rows at x, without forces. */
FUNCTION void place(memory *m)
{
  vector values[ROW_VECTORS + 1];
  for (int v = 0; v < CONE_VECTORS; ++v) {
    cone *const of = m->cones + v;
    of->u[0] = of->friction * of_cones(m->x, cone_normal, v) + of->away;
    of->u[1] = of_cones(m->x, cone_x, v);
    of->u[2] = of_cones(m->x, cone_y, v);
  }
  row_values(m, m->x, values);
  for (int v = 0; v < ROW_VECTORS; ++v) {
    m->high[v].u = m->high[v].bound - values[v];
    m->low[v].u = m->low[v].bound + values[v];
  }
}

/* K = H, and the right-hand sides without cones and rows. */
FUNCTION void begin_step(memory *m)
{
  for (int v = 0; v < COLUMNS; ++v) {
    m->right[v] = -m->f[v];
    m->pulls[v] = ZERO;
  }
  for (int v = 0; v < WIDE; ++v) m->missed[v] = -m->e[v];
  for (int a = 0; a < FIXED; ++a) add(m->right, -AT(m->y, a), m->E[a], 0, N);
  for (int i = 0; i < N; ++i) {
    for (int v = first[i] / LANES; v <= (last[i] - 1) / LANES; ++v) m->K[i][v] = m->H[i][v];
    add(m->right, -AT(m->x, i), m->H[i], first[i], last[i]);
    for (int v = 0; v < WIDE; ++v) m->missed[v] += AT(m->x, i) * m->across[i][v];
  }
}

/* Whether x meets the conditions of optimality after at most so many steps, of which the second one has this mu. */
FUNCTION int converges(memory *m, number mu, int most)
{
  number worst = 1, before;
  for (int v = 0; v < COLUMNS; ++v) m->x[v] = ZERO;
  for (int v = 0; v < WIDE; ++v) m->y[v] = ZERO;
  for (int turn = 0; turn < most; ++turn) {
    begin_step(m);
    if (turn) {
      before = worst;
      if (turn > 1) {
        const number wanted = 0.1 * worst * worst, least = 1e-4 * mu, most = 0.1 * mu;
        mu = wanted < least ? least : wanted;
        mu = mu > most ? most : mu;
        mu = mu < LEAST_MU ? LEAST_MU : mu;
      }
      vector each = greater_of(add_cones(m, mu), add_rows(m, mu)), nothing = ZERO; /* NaN is not greater */
      for (int v = 0; v < COLUMNS; ++v) {
        each = greater_of(each, size_of(m->right[v]));
        nothing += 0 * m->right[v];
      }
      for (int v = 0; v < WIDE; ++v) {
        each = greater_of(each, size_of(m->missed[v]));
        nothing += 0 * m->missed[v];
      }
      worst = largest_of(each + nothing);
      if (!(worst < 1e9)) return 0;
      if (mu == LEAST_MU && (worst < FINE || (worst < TOLERANCE && before < TOLERANCE))) return 1;
    }
    for (int v = 0; v < COLUMNS; ++v) m->right[v] += m->pulls[v];
    step(m);
    for (int v = 0; v < COLUMNS; ++v) m->x[v] += m->right[v];
    for (int v = 0; v < WIDE; ++v) m->y[v] += m->missed[v];
    if (turn) move(m);
    else place(m);
  }
  return 0;
}

/* Fills the memory: forces in shares of the size, which it returns, costs of the largest. */
FUNCTION number load(memory *m, const number *const *from)
{
  const number *const tau = from[TAU], *const H = from[COST], *const A = from[MATRIX], *const active = from[ACTIVE];
  number square = 0, cost = 0;
  for (int i = 0; i < TORQUES; ++i) square += tau[i] * tau[i];
  for (int i = 0; i < N; ++i) cost = H[i * N + i] > cost ? H[i * N + i] : cost;
  const number size = 1 + __builtin_sqrt(square), share = 1 / size, per_cost = 1 / cost;
  for (int i = 0; i < N; ++i) {
    const int own = variable[i];
    AT(m->f, i) = from[SLOPE][own] * share * per_cost;
    for (int j = first[i]; j < last[i]; ++j) AT(m->H[i], j) = H[own * N + variable[j]] * per_cost;
    for (int a = 0; a < FIXED; ++a) AT(m->across[i], a) = AT(m->E[a], i) = A[fixed[a] * N + own];
  }
  for (int a = 0; a < FIXED; ++a) AT(m->e, a) = tau[fixed[a]] * share;
  for (int c = 0; c < CONE_VECTORS * LANES; ++c) {
    cone *const of = m->cones + c / LANES;
    of->friction[c % LANES] = cone_friction[c];
    of->away[c % LANES] = 1 - active[cone_contact[c]];
  }
  for (int r = 0; r < ROW_VECTORS * LANES; ++r) {
    side *const low = m->low + r / LANES, *const high = m->high + r / LANES;
    const int j = r % LANES;
    low->there[j] = r < ROWS && row_low[r];
    high->there[j] = r < ROWS && row_high[r];
    low->bound[j] = high->bound[j] = 1;
    if (r >= ROWS) continue;
    const number away = row_contact[r] < 0 ? 0 : 1 - active[row_contact[r]];
    if (row_low[r]) low->bound[j] = away - from[LOWER][row_bound[r]] * share;
    if (row_high[r]) high->bound[j] = away + from[UPPER][row_bound[r]] * share;
    for (int i = row_begin[r]; i < row_end[r]; ++i)
      AT(m->g[r], i) = AT(m->down[i], r) = row_equation[r] < 0 ? 1 : A[row_equation[r] * N + variable[i]];
    m->begin[r / LANES] = !j || row_begin[r] < m->begin[r / LANES] ? row_begin[r] : m->begin[r / LANES];
    m->end[r / LANES] = !j || row_end[r] > m->end[r / LANES] ? row_end[r] : m->end[r / LANES];
  }
  return size;
}

/* Whether torques that no force moves are within their limits. */
FUNCTION int possible(const number *lower, const number *upper)
{
  for (int k = 0; k < UNMOVED; ++k)
    if (!(lower[unmoved[k]] <= 0 && upper[unmoved[k]] >= 0)) return 0;
  return 1;
}

/* Writes torques, contact forces and margins of a state; NaN where no solution was found that keeps the limits. */
static void solve_state(const number *const *from, number *tau, number *forces, number *margins)
{
  static _Thread_local memory m;
  number given[TORQUES + EQUATIONS * N + N + 2 * BOUNDS], results[TORQUES + FORCES + 2 * LIMITS + 2 * BOUNDS];
  number size = 1, *const x = given + TORQUES + EQUATIONS * N;
  const number *const allowed = results + TORQUES + FORCES, *const use = allowed + LIMITS, *const slack = use + LIMITS;
  int good = possible(from[LOWER], from[UPPER]);
  if (good) {
    size = load(&m, from);
    good = converges(&m, LEAST_MU, FEW_TURNS) || converges(&m, FIRST_MU, MOST_TURNS);
  }
  if (good) {
    memcpy(given, from[TAU], TORQUES * sizeof(number));
    memcpy(given + TORQUES, from[MATRIX], EQUATIONS * N * sizeof(number));
    for (int i = 0; i < N; ++i) x[variable[i]] = AT(m.x, i) * size;
    memcpy(x + N, from[LOWER], BOUNDS * sizeof(number));
    memcpy(x + N + BOUNDS, from[UPPER], BOUNDS * sizeof(number));
    judge(given, results);
    for (int k = 0; k < LIMITS; ++k) {
      const int counts = limit_contact[k] < 0 || from[ACTIVE][limit_contact[k]] > 0;
      margins[k] = counts ? allowed[k] - __builtin_sqrt(use[k]) : __builtin_inf();
      good &= margins[k] >= -TOLERANCE_OF_LIMITS * size;
    }
    for (int k = 0; k < 2 * BOUNDS; ++k) good &= slack[k] >= -TOLERANCE_OF_LIMITS * size;
  }
  for (int i = 0; i < TORQUES; ++i) tau[i] = good ? results[i] : __builtin_nan("");
  for (int i = 0; i < FORCES; ++i) forces[i] = good ? results[TORQUES + i] : __builtin_nan("");
  for (int k = 0; !good && k < LIMITS; ++k) margins[k] = __builtin_nan("");
}

extern PyObject *PyLong_FromLong(long);
extern long PyLong_AsLong(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
enum { SHARED = 4 };

/* solve(count, array, ..., tau, forces, margins): an array has `count` states along its first axis, or is one state for
   all. The number of states that were solved; -1, with nothing written, when an array is not as it should be. */
static PyObject *solve(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  Numbers given[GIVEN + RESULTS];
  int same[GIVEN + RESULTS], seen = 0, fit = number_of_arguments == GIVEN + RESULTS + 1;
  const long count = fit ? PyLong_AsLong(*arguments++) : 0;
  long good = 0;
  (void)self;
  for (; fit && seen < GIVEN + RESULTS; ++seen) {
    const int written = seen >= GIVEN;
    fit = rows(arguments[seen], given + seen, written, count, shape[seen], same + seen) && (!written || !same[seen] || count == 1);
  }
  if (fit) {
    void *thread = count >= SHARED ? PyEval_SaveThread() : 0;
    number *at[GIVEN + RESULTS];
    for (int k = 0; k < GIVEN + RESULTS; ++k) at[k] = given[k].data;
    for (long state = 0; state < count; ++state) {
      solve_state((const number *const *)at, at[GIVEN], at[GIVEN + 1], at[GIVEN + 2]);
      good += at[GIVEN][0] == at[GIVEN][0];
      for (int k = 0; k < GIVEN + RESULTS; ++k) at[k] += same[k] ? 0 : size_of_one[k];
    }
    if (thread) PyEval_RestoreThread(thread);
  }
  release(given, seen);
  return PyLong_FromLong(fit ? good : -1);
}

PyMethodDef cones_definition = {"solve", solve, FAST_CALL, "See dynamics_node/codegen/c/cone_program.py"};
