// Pinocchio's C++ core, timed by itself: medians of thread CPU time in us per call, as one JSON object.
#include "read_model.hpp"
#include "timing.hpp"

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

int main()
{
  const pin::Model model = read_model(std::cin);
  pin::Data data(model);

  const Eigen::VectorXd low = Eigen::VectorXd::Constant(model.nq, -1), high = -low;
  std::vector<Eigen::VectorXd> q, v, u;
  for (int k = 0; k < STATES; ++k) {
    q.push_back(pin::randomConfiguration(model, low, high));
    v.push_back(Eigen::VectorXd::Random(model.nv));
    u.push_back(Eigen::VectorXd::Random(model.nv));
  }
  const double rnea = median_us([&](int k) { pin::rnea(model, data, q[k], v[k], u[k]); });
  const double world =
    median_us([&](int k) { pin::aba(model, data, q[k], v[k], u[k], pin::Convention::WORLD); });
  const double local =
    median_us([&](int k) { pin::aba(model, data, q[k], v[k], u[k], pin::Convention::LOCAL); });
  const double crba = std::min(
    median_us([&](int k) { pin::crba(model, data, q[k], pin::Convention::WORLD); }),
    median_us([&](int k) { pin::crba(model, data, q[k], pin::Convention::LOCAL); }));
  const double drnea = median_us([&](int k) { pin::computeRNEADerivatives(model, data, q[k], v[k], u[k]); });
  const double daba = median_us([&](int k) { pin::computeABADerivatives(model, data, q[k], v[k], u[k]); });
  std::cout << "{\"rnea\": " << rnea << ", \"aba\": " << std::min(world, local) << ", \"crba\": " << crba
            << ", \"drnea\": " << drnea << ", \"daba\": " << daba << "}" << std::endl;
}
