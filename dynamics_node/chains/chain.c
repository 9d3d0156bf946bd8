/* Forward dynamics of serial chains by the constraint-force algorithm (docs/explanation/parallel.md): a block a chain, a thread a link,
   a row of the block tri-diagonal system in each thread's registers. Words go from thread to thread through shared memory,
   [word][thread], at most WORDS at a time. After dialects.h and sincos.h; in C with COROUTINES, for threads keep what they
   have over barriers. WIDTH threads, at least n; those beyond n take part in barriers alone.

   The frames are turned so that joints move about or along z: S is e2 (turning) or e5 (sliding) of 0..5, moments first.
   What a joint bears is along the other five. */
#define WORDS 18
/* table: 44 words of a link: R 9, t 3, J 10, J^-1 21, sliding 1; [word][link] */
#define EACH(k, count) UNROLLED for (int k = 0; k < count; ++k)
#define AT(row, column) ((row) * ((row) + 1) / 2 + (column)) /* of a lower triangle */
#define IN(row, column) ((row) < (column) ? AT(column, row) : AT(row, column))

typedef struct {
  real R[9], t[3];
} Pose; /* of a link in an earlier one: its axes are the columns of R, row by row */

FUNCTION void cross(const real *a, const real *b, real *c)
{
  c[0] = FMA(a[1], b[2], -MUL(a[2], b[1]));
  c[1] = FMA(a[2], b[0], -MUL(a[0], b[2]));
  c[2] = FMA(a[0], b[1], -MUL(a[1], b[0]));
}

FUNCTION void add_cross(const real *a, const real *b, real *c)
{
  real d[3];
  cross(a, b, d);
  EACH(k, 3) c[k] += d[k];
}

FUNCTION void turn(const real *R, const real *x, real *y)
{
  EACH(k, 3) y[k] = FMA(R[3 * k + 2], x[2], FMA(R[3 * k + 1], x[1], MUL(R[3 * k], x[0])));
}

FUNCTION void turn_back(const real *R, const real *x, real *y)
{
  EACH(k, 3) y[k] = FMA(R[6 + k], x[2], FMA(R[3 + k], x[1], MUL(R[k], x[0])));
}

/* A motion of the earlier link, seen from the link. */
FUNCTION void forward(const Pose *p, const real *V, real *seen)
{
  real slid[3];
  cross(V, p->t, slid);
  EACH(k, 3) slid[k] += V[3 + k];
  turn_back(p->R, V, seen);
  turn_back(p->R, slid, seen + 3);
}

/* A wrench on the link, seen from the earlier one. */
FUNCTION void backward(const Pose *p, const real *F, real *seen)
{
  turn(p->R, F, seen);
  turn(p->R, F + 3, seen + 3);
  add_cross(p->t, seen + 3, seen);
}

FUNCTION void place(const real *table, int n, int i, real q, Pose *p)
{
  EACH(k, 9) p->R[k] = table[k * n + i];
  EACH(k, 3) p->t[k] = table[(9 + k) * n + i];
  if (table[43 * n + i] != 0) {
    EACH(k, 3) p->t[k] = FMA(q, p->R[3 * k + 2], p->t[k]);
  } else {
    real s, c;
    sincos_of(EXCEEDS(q, LARGE) ? NO_NUMBER : q, &s, &c);
    EACH(k, 3) {
      const real x = p->R[3 * k], y = p->R[3 * k + 1];
      p->R[3 * k] = FMA(c, x, MUL(s, y));
      p->R[3 * k + 1] = FMA(c, y, -MUL(s, x));
    }
  }
}

/* Words of this thread for all others, from word `first` on; behind the next barrier they may be taken. */
FUNCTION void give(real *w, int first, const real *words, int count)
{
  EACH(k, count) w[(first + k) * WIDTH + THREAD] = words[k];
}

/* Those of another thread, before the barrier behind which others are given. */
FUNCTION void take(const real *w, int first, int thread, real *words, int count)
{
  EACH(k, count) words[k] = w[(first + k) * WIDTH + thread];
}

/* p becomes the pose in the link before that in which it was, `before` being the pose of that one. */
FUNCTION void lengthen(Pose *p, const Pose *before)
{
  Pose both;
  EACH(k, 3) {
    const real column[3] = {p->R[k], p->R[3 + k], p->R[6 + k]};
    real seen[3];
    turn(before->R, column, seen);
    EACH(row, 3) both.R[3 * row + k] = seen[row];
  }
  turn(before->R, p->t, both.t);
  EACH(k, 3) both.t[k] += before->t[k];
  *p = both;
}

/* x_i = Ad_i x_{i-1} + x_i, p the pose of i in i - 1. */
FUNCTION void scan_forward(real *w, const Pose *joint, int n, real *x)
{
  Pose p = *joint;
  ROLLED for (int s = 1; s < n; s *= 2) {
    give(w, 0, p.R, 9);
    give(w, 9, p.t, 3);
    give(w, 12, x, 6);
    BARRIER;
    if (THREAD >= s) {
      Pose before;
      real theirs[6], seen[6];
      take(w, 0, THREAD - s, before.R, 9);
      take(w, 9, THREAD - s, before.t, 3);
      take(w, 12, THREAD - s, theirs, 6);
      forward(&p, theirs, seen);
      EACH(k, 6) x[k] += seen[k];
      lengthen(&p, &before);
    }
    BARRIER;
  }
}

/* x_i = x_i + Ad_{i+1}^T x_{i+1}, p the pose of i in i - 1. */
FUNCTION void scan_backward(real *w, const Pose *joint, int n, real *x)
{
  Pose p = *joint;
  ROLLED for (int s = 1; s < n; s *= 2) {
    real seen[6];
    backward(&p, x, seen);
    give(w, 0, p.R, 9);
    give(w, 9, p.t, 3);
    give(w, 12, seen, 6);
    BARRIER;
    if (THREAD + s < n) {
      take(w, 12, THREAD + s, seen, 6);
      EACH(k, 6) x[k] += seen[k];
    }
    if (THREAD >= s) {
      Pose before;
      take(w, 0, THREAD - s, before.R, 9);
      take(w, 9, THREAD - s, before.t, 3);
      lengthen(&p, &before);
    }
    BARRIER;
  }
}

/* J V by mass, first moment and moments xx yx yy zx zy zz about the origin. */
FUNCTION void momentum(const real *table, int n, int i, const real *V, real *h)
{
  real J[10], moment[3];
  EACH(k, 10) J[k] = table[(12 + k) * n + i];
  EACH(k, 3) {
    h[k] = FMA(J[4 + IN(k, 2)], V[2], FMA(J[4 + IN(k, 1)], V[1], MUL(J[4 + IN(k, 0)], V[0])));
    moment[k] = J[1 + k];
  }
  add_cross(moment, V + 3, h);
  cross(V, moment, h + 3);
  EACH(k, 3) h[3 + k] = FMA(J[0], V[3 + k], h[3 + k]);
}

/* J^-1 F of link i. */
FUNCTION void pulled(const real *table, int n, int i, const real *F, real *a)
{
  EACH(row, 6) a[row] = 0;
  EACH(row, 6) EACH(k, 6) a[row] = FMA(table[(22 + IN(row, k)) * n + i], F[k], a[row]);
}

/* tau of qdd; f the wrench of the environment on the link. */
FUNCTION real inverse_dynamics(real *w, const real *table, int n, const Pose *p, int sliding, real qd,
                               real qdd, const real *gravity, const real *f)
{
  const int i = THREAD, own = i < n ? i : n - 1, z = sliding ? 5 : 2;
  real V[6] = {0, 0, sliding ? 0 : qd, 0, 0, sliding ? qd : 0}, a[6], F[6], h[6];
  scan_forward(w, p, n, V);
  EACH(k, 6) a[k] = 0;
  a[0] = sliding ? 0 : MUL(V[1], qd);
  a[1] = sliding ? 0 : -MUL(V[0], qd);
  a[3] = MUL(sliding ? V[1] : V[4], qd);
  a[4] = -MUL(sliding ? V[0] : V[3], qd);
  a[2] = sliding ? 0 : qdd;
  a[5] = sliding ? qdd : 0;
  if (i == 0) {
    real up[3];
    turn_back(p->R, gravity, up);
    EACH(k, 3) a[3 + k] -= up[k];
  }
  scan_forward(w, p, n, a);
  momentum(table, n, own, a, F);
  momentum(table, n, own, V, h);
  add_cross(V, h, F);
  add_cross(V + 3, h + 3, F);
  add_cross(V, h + 3, F + 3);
  EACH(k, 6) F[k] = i < n ? F[k] - f[k] : 0;
  scan_backward(w, p, n, F);
  return z == 5 ? F[5] : F[2];
}

/* K F: relative accelerations across the joints. */
FUNCTION void across(real *w, const real *table, int n, const Pose *p, const real *F, real *relative)
{
  const int i = THREAD, own = i < n ? i : n - 1;
  real seen[6], left[6], a[6];
  backward(p, F, seen);
  give(w, 0, seen, 6);
  BARRIER;
  EACH(k, 6) left[k] = F[k];
  if (i + 1 < n) {
    take(w, 0, i + 1, seen, 6);
    EACH(k, 6) left[k] -= seen[k];
  }
  BARRIER;
  pulled(table, n, own, left, a);
  give(w, 0, a, 6);
  BARRIER;
  EACH(k, 6) relative[k] = a[k];
  if (i > 0) {
    real before[6];
    take(w, 0, i - 1, before, 6);
    forward(p, before, seen);
    EACH(k, 6) relative[k] -= seen[k];
  }
  BARRIER;
}

/* The five of 0..5 that a joint bears: entry k of a vector. */
FUNCTION real borne(const real *x, int k, int sliding)
{
  return k < 2 ? x[k] : k < 4 ? x[k + 1] : sliding ? x[2] : x[5];
}

/* D (15, lower triangle) of row i and its coupling C (5 x 5) to row i - 1. */
FUNCTION void blocks(const real *table, int n, const Pose *p, int sliding, real *D, real *C)
{
  const int i = THREAD;
  EACH(k, 15) D[k] = 0;
  EACH(k, 25) C[k] = 0;
  if (i >= n) {
    EACH(k, 5) D[AT(k, k)] = 1;
    return;
  }
  real Z[30];
  EACH(k, 5) {
    real e[6] = {0, 0, 0, 0, 0, 0};
    if (k < 2) e[k] = 1;
    else if (k < 4) e[k + 1] = 1;
    else { e[2] = sliding ? 1 : 0; e[5] = sliding ? 0 : 1; }
    backward(p, e, Z + 6 * k);
  }
  EACH(a, 5) {
    real row[6], held[6];
    EACH(k, 6) {
      const int bearing = a < 2 ? a : a < 4 ? a + 1 : 5;
      row[k] = table[(22 + IN(bearing, k)) * n + i];
      if (a == 4 && sliding) row[k] = table[(22 + IN(2, k)) * n + i];
    }
    EACH(b, 5) if (b <= a) D[AT(a, b)] = borne(row, b, sliding);
    if (i > 0) {
      pulled(table, n, i - 1, Z + 6 * a, held);
      EACH(b, 5) if (b <= a) EACH(k, 6) D[AT(a, b)] = FMA(Z[6 * b + k], held[k], D[AT(a, b)]);
      EACH(b, 5) C[5 * a + b] = -borne(held, b, table[43 * n + i - 1] != 0);
    }
  }
}

/* L of D = L L^T in place, its diagonal inverted. */
FUNCTION void factor(real *D)
{
  EACH(a, 5) EACH(b, 5) if (b <= a) {
    real left = D[AT(a, b)];
    EACH(k, 5) if (k < b) left = FMA(-D[AT(a, k)], D[AT(b, k)], left);
    D[AT(a, b)] = a == b ? 1 / sqrt(left) : MUL(left, D[AT(b, b)]);
  }
}

/* L^-1 x in place, x 5 numbers `step` apart. */
FUNCTION void substitute(const real *L, real *x, int step)
{
  EACH(a, 5) {
    real left = x[a * step];
    EACH(k, 5) if (k < a) left = FMA(-L[AT(a, k)], x[k * step], left);
    x[a * step] = MUL(left, L[AT(a, a)]);
  }
}

FUNCTION void substitute_back(const real *L, real *x)
{
  EACH(j, 5) {
    const int a = 4 - j;
    real left = x[a];
    EACH(k, 5) if (k > a) left = FMA(-L[AT(k, a)], x[k], left);
    x[a] = MUL(left, L[AT(a, a)]);
  }
}

/* Odd-even elimination: r becomes x. D and C are used up. */
FUNCTION void solve(real *w, int n, real *D, real *C, real *r)
{
  const int i = THREAD;
  ROLLED for (int s = 1; s < n; s *= 2) {
    real L[15], z[5], down[25];
    EACH(k, 15) L[k] = D[k];
    EACH(k, 5) z[k] = r[k];
    factor(L);
    substitute(L, z, 1);
    /* row i + s couples back to i by C: what row i publishes is L^-1 C^T, a column from each row of C */
    EACH(b, 5) {
      give(w, 0, C + 5 * b, 5);
      BARRIER;
      real column[5] = {0, 0, 0, 0, 0};
      if (i + s < n) take(w, 0, i + s, column, 5);
      BARRIER;
      substitute(L, column, 1);
      EACH(a, 5) down[5 * a + b] = column[a];
    }
    EACH(b, 5) substitute(L, C + b, 5);
    real E[25];
    EACH(k, 25) E[k] = 0;
    EACH(k, 5) {
      real other[11];
      give(w, 0, C + 5 * k, 5);
      give(w, 5, down + 5 * k, 5);
      give(w, 10, z + k, 1);
      BARRIER;
      if (i + s < n) {
        take(w, 0, i + s, other, 11);
        EACH(a, 5) {
          r[a] = FMA(-other[a], other[10], r[a]);
          EACH(b, 5) if (b <= a) D[AT(a, b)] = FMA(-other[a], other[b], D[AT(a, b)]);
        }
      }
      if (i >= s && i < n) {
        take(w, 0, i - s, other, 11);
        EACH(a, 5) {
          r[a] = FMA(-other[5 + a], other[10], r[a]);
          EACH(b, 5) if (b <= a) D[AT(a, b)] = FMA(-other[5 + a], other[5 + b], D[AT(a, b)]);
          EACH(b, 5) E[5 * a + b] = FMA(-other[5 + a], other[b], E[5 * a + b]);
        }
      }
      BARRIER;
    }
    EACH(k, 25) C[k] = E[k];
  }
  factor(D);
  substitute(D, r, 1);
  substitute_back(D, r);
}

/* qdd (count, n) of q, qd, tau (count, n); gravity (3), or (count, 3) if gravities is 1; f_ext (count, n, 6) if wrenches is
   1. corrections: how often the result is improved by what its inverse dynamics leaves of tau. */
KERNEL chains(const int n, const int gravities, const int wrenches, const int corrections, const real *restrict table,
              const real *restrict gravity, const real *restrict q, const real *restrict qd,
              const real *restrict tau, const real *restrict f_ext, real *restrict qdd)
{
  SHARED real w[WORDS * WIDTH];
  const int i = THREAD, own = i < n ? i : n - 1, sliding = table[43 * n + own] != 0;
  const long at = (long)BLOCK * n + own;
  real found = 0;
  real g[3];
  EACH(k, 3) g[k] = gravity[3 * (long)BLOCK * gravities + k];
  ROLLED for (int again = 0; again <= corrections; ++again) {
    Pose p;
    place(table, n, own, q[at], &p);
    real f[6], D[15], C[25], r[5], F[6], relative[6], left;
    EACH(k, 6) f[k] = wrenches ? f_ext[6 * at + k] : 0;
    left = tau[at] - inverse_dynamics(w, table, n, &p, sliding, i < n ? qd[at] : 0, i < n ? found : 0, g, f);
    EACH(k, 6) F[k] = 0;
    if (i < n) { F[2] = sliding ? 0 : left; F[5] = sliding ? left : 0; }
    across(w, table, n, &p, F, relative);
    EACH(k, 5) r[k] = i < n ? -borne(relative, k, sliding) : 0;
    blocks(table, n, &p, sliding, D, C);
    solve(w, n, D, C, r);
    if (i < n) {
      EACH(k, 2) { F[k] = r[k]; F[3 + k] = r[2 + k]; }
      if (sliding) F[2] = r[4];
      else F[5] = r[4];
    }
    across(w, table, n, &p, F, relative);
    found += sliding ? relative[5] : relative[2];
  }
  if (i < n) qdd[at] = found;
}
