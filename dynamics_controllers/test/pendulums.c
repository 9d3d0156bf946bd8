/* Two pendulums in the interface of `dynamics export --target shared`. With INERTIA the inertial parameters are an
   input, with INPUT="name" an input of this name; with POSITIONS=4 it has as many. Singular at q[0] == 3. */
#include <math.h>

#ifndef URDF_HASH
#define URDF_HASH "1"
#define ELBOW "el\nbow"
#endif

#ifndef POSITIONS
#define POSITIONS 2
#endif

enum { JOINTS = 2 };
static const double nominal[20] = {2, 1.0, 0, 0, 0, 0, 0, 0, 0, 0.5, 1, 0.3, 0, 0, 0, 0, 0, 0, 0, 0.1};

static int solve(const double **arg, double **res)
{
  static const double zeros[20];
  const double *q = arg[0] ? arg[0] : zeros, *qd = arg[1] ? arg[1] : zeros, *qdd = arg[2] ? arg[2] : zeros;
#ifdef INERTIA
  const double *inertia = arg[3] ? arg[3] : zeros;
#else
  const double *inertia = nominal;
#endif
  if (q[0] == 3.0) return 1;
  for (int i = 0; i < JOINTS && res[0]; ++i)
    res[0][i] = inertia[10 * i + 9] * qdd[i] + 9.81 * inertia[10 * i + 1] * sin(q[i]) + 0.2 * qd[0] * qd[1];
  return 0;
}

int arm_inverse_dynamics_casadi(const double **arg, double **res, long long *iw, double *w, int mem)
{
  (void)iw, (void)w, (void)mem;
  return solve(arg, res);
}

#ifdef INPUT
static const char *const input_names[] = {"q", "qd", "qdd", INPUT};
#else
static const char *const input_names[] = {"q", "qd", "qdd", "inertia"};
#endif

long long arm_inverse_dynamics_casadi_n_in(void)
{
#if defined(INERTIA) || defined(INPUT)
  return 4;
#else
  return 3;
#endif
}
long long arm_inverse_dynamics_casadi_n_out(void) { return 1; }
const char *arm_inverse_dynamics_casadi_name_in(long long k) { return input_names[k]; }
const char *arm_inverse_dynamics_casadi_name_out(long long k) { return k ? 0 : "tau"; }
const long long *arm_inverse_dynamics_casadi_sparsity_in(long long k)
{
  static const long long shapes[3][3] = {{JOINTS, 1, 1}, {10 * JOINTS, 1, 1}, {POSITIONS, 1, 1}};
  return shapes[k == 3 ? 1 : k == 0 ? 2 : 0];
}
const long long *arm_inverse_dynamics_casadi_sparsity_out(long long k)
{
  static const long long shape[3] = {JOINTS, 1, 1};
  return k ? 0 : shape;
}
int arm_inverse_dynamics_casadi_work(long long *arg, long long *res, long long *iw, long long *w)
{
  *arg = 4, *res = 1, *iw = 0, *w = 0;
  return 0;
}
int arm_inverse_dynamics_n_joints(void) { return JOINTS; }
const char *arm_inverse_dynamics_joint_name(int i) { return i == 0 ? "shoulder" : i == 1 ? ELBOW : 0; }
const char *arm_inverse_dynamics_hash(void) { return "0"; }
const char *arm_inverse_dynamics_urdf_hash(void) { return URDF_HASH; }
const char *arm_inverse_dynamics_version(void) { return "0.1.0"; }
#ifdef INERTIA
const char *arm_inverse_dynamics_body_name(int i) { return i == 0 ? "upper" : i == 1 ? "lower" : 0; }
const double *arm_inverse_dynamics_inertia(void) { return nominal; }
void arm_inverse_dynamics_add_payload(double inertia[], int body, double mass, const double com[3],
                                      const double moments[6])
{
  double *own = inertia + 10 * body, about = com[0] * com[0] + com[1] * com[1] + com[2] * com[2];
  const int first[6] = {0, 0, 1, 0, 1, 2}, second[6] = {0, 1, 1, 2, 2, 2};
  own[0] += mass;
  for (int i = 0; i < 3; ++i) own[1 + i] += mass * com[i];
  for (int k = 0; k < 6; ++k) {
    const int i = first[k], j = second[k];
    own[4 + k] += moments[k] + mass * ((i == j ? about : 0.0) - com[i] * com[j]);
  }
}
#endif
