// Pinocchio's algorithms on CasADi's symbols, written as C: the peer that also makes code for one robot.
//   casadi_export NAME < model     writes NAME.c with the functions rnea(q, v, a) and aba(q, v, tau), and, of a model
//                                  with a fixed base, their derivatives drnea and daba
#include "read_model.hpp"

#include <pinocchio/autodiff/casadi.hpp>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

using Symbol = casadi::SX;
using Vector = Eigen::Matrix<Symbol, Eigen::Dynamic, 1>;

static Vector elements(const Symbol & x)
{
  Vector out(x.numel());
  for (casadi_int k = 0; k < x.numel(); ++k) out[k] = x(k);
  return out;
}

static Symbol column(const Vector & x)
{
  Symbol out(x.size(), 1);
  for (Eigen::Index k = 0; k < x.size(); ++k) out(k) = x[k];
  return out;
}

template <class Matrix>
static Symbol matrix(const Matrix & x)
{
  Symbol out(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows(); ++i)
    for (Eigen::Index j = 0; j < x.cols(); ++j) out(i, j) = x(i, j);
  return out;
}

int main(int, char ** argv)
{
  const pin::ModelTpl<Symbol> model = read_model(std::cin).cast<Symbol>();
  pin::DataTpl<Symbol> data(model);
  const Symbol q = Symbol::sym("q", model.nq), v = Symbol::sym("v", model.nv), u = Symbol::sym("u", model.nv);
  const Vector eq = elements(q), ev = elements(v), eu = elements(u);
  casadi::CodeGenerator out(argv[1]);
  out.add(casadi::Function("rnea", {q, v, u}, {column(pin::rnea(model, data, eq, ev, eu))}));
  out.add(casadi::Function("aba", {q, v, u}, {column(pin::aba(model, data, eq, ev, eu, pin::Convention::LOCAL))}));
  if (model.nq == model.nv) {
    pin::computeRNEADerivatives(model, data, eq, ev, eu);
    data.M.triangularView<Eigen::StrictlyLower>() = data.M.transpose().triangularView<Eigen::StrictlyLower>();
    const Symbol inverse = Symbol::horzcat({matrix(data.dtau_dq), matrix(data.dtau_dv), matrix(data.M)});
    out.add(casadi::Function("drnea", {q, v, u}, {Symbol::densify(inverse)}));
    pin::computeABADerivatives(model, data, eq, ev, eu);
    data.Minv.triangularView<Eigen::StrictlyLower>() = data.Minv.transpose().triangularView<Eigen::StrictlyLower>();
    const Symbol forward = Symbol::horzcat({matrix(data.ddq_dq), matrix(data.ddq_dv), matrix(data.Minv)});
    out.add(casadi::Function("daba", {q, v, u}, {Symbol::densify(forward)}));
  }
  out.generate();
}
