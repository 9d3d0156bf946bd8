// Forward dynamics with contacts in Pinocchio's C++ core, timed by itself: a median of thread CPU time in us per call.
#include "read_model.hpp"
#include "timing.hpp"

#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>

#include <cstdlib>

// Arguments: 3 or 6 rows, then for every contact its joint and placement (R row-major, p).
int main(int argc, char ** argv)
{
  const pin::Model model = read_model(std::cin);
  pin::Data data(model);
  using Matrix = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(pin::RigidConstraintModel) contacts;
  PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(pin::RigidConstraintData) datas;
  const auto kind = std::atoi(argv[1]) == 3 ? pin::CONTACT_3D : pin::CONTACT_6D;
  for (int at = 2; at + 13 <= argc; at += 13) {
    double x[12];
    for (int k = 0; k < 12; ++k) x[k] = std::atof(argv[at + 1 + k]);
    const pin::SE3 placement(Eigen::Map<Matrix>(x), Eigen::Map<Eigen::Vector3d>(x + 9));
    contacts.emplace_back(kind, model, std::atoi(argv[at]), placement, pin::LOCAL);
    datas.emplace_back(contacts.back());
  }
  pin::initConstraintDynamics(model, data, contacts, datas);
  pin::ProximalSettings settings(1e-12, 0.0, 1);

  const Eigen::VectorXd low = Eigen::VectorXd::Constant(model.nq, -1), high = -low;
  std::vector<Eigen::VectorXd> q, v, u;
  for (int k = 0; k < STATES; ++k) {
    q.push_back(pin::randomConfiguration(model, low, high));
    v.push_back(Eigen::VectorXd::Random(model.nv));
    u.push_back(Eigen::VectorXd::Random(model.nv));
  }
  const double time = median_us(
    [&](int k) { pin::constraintDynamics(model, data, q[k], v[k], u[k], contacts, datas, settings); });
  std::cout << "{\"constraintDynamics\": " << time << "}" << std::endl;
}
