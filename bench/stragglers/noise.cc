#include "bench/stragglers/noise.h"

#include <cmath>

#include "bench/stragglers/real_residuals.h"

namespace paceline::detect {
namespace {

constexpr double kLogNormalShape = 0.8;
constexpr int kBlock = 8;  // Consecutive steps taken from a trace.

// On a node a tenth of the steps are loud, in blocks of ten.
constexpr double kLoudBegins = 1.0 / 90;
constexpr double kLoudEnds = 1.0 / 10;
constexpr double kLoudness = 3;
const double kQuiet = 1 / std::sqrt(0.9 + 0.1 * kLoudness * kLoudness);

}  // namespace

NoiseModel::NoiseModel(Noise kind, double sd, double rho, int ranks, int ranks_per_node,
                       uint64_t seed)
    : kind_(kind),
      sd_(sd),
      rho_(rho),
      fresh_(std::sqrt(1 - rho * rho)),
      ranks_per_node_(ranks_per_node),
      random_(seed),
      last_(static_cast<size_t>(ranks)),
      positions_(kind == Noise::kReal ? static_cast<size_t>(ranks) : 0),
      loud_(static_cast<size_t>((ranks - 1) / ranks_per_node + 1)) {
  if (kind == Noise::kReal) return;
  for (int rank = 0; rank < ranks; ++rank) last_[static_cast<size_t>(rank)] = Innovation(rank);
}

void NoiseModel::NextStep() {
  if (kind_ != Noise::kBursts) return;
  for (char& loud : loud_) {
    if (random_.Chance(loud != 0 ? kLoudEnds : kLoudBegins)) loud = static_cast<char>(1 - loud);
  }
}

double NoiseModel::Innovation(int rank) {
  switch (kind_) {
    case Noise::kLaplace: {
      const double size = random_.Exponential() / std::sqrt(2.0);
      return random_.Unit() < 0.5 ? size : -size;
    }
    case Noise::kLogNormal: {
      static const double mean = std::exp(kLogNormalShape * kLogNormalShape / 2);
      static const double deviation =
          mean * std::sqrt(std::expm1(kLogNormalShape * kLogNormalShape));
      return (std::exp(kLogNormalShape * random_.Normal()) - mean) / deviation;
    }
    case Noise::kStudent: {
      // Four degrees of freedom: the sum of four squared normal numbers is that of two
      // exponential ones, doubled; the variance is 2.
      const double squares = 2 * (random_.Exponential() + random_.Exponential());
      return random_.Normal() * std::sqrt(2 / squares);
    }
    case Noise::kBursts: {
      const bool loud = loud_[static_cast<size_t>(rank / ranks_per_node_)] != 0;
      return random_.Normal() * kQuiet * (loud ? kLoudness : 1);
    }
    default:
      return random_.Normal();
  }
}

double NoiseModel::NextReal(int rank) {
  Position& position = positions_[static_cast<size_t>(rank)];
  if (position.left == 0) {
    const auto& all = RealResiduals();
    position.worker = static_cast<size_t>(random_.Below(static_cast<int>(all.size())));
    const int starts = static_cast<int>(all[position.worker].size()) - kBlock + 1;
    position.at = static_cast<size_t>(random_.Below(starts));
    position.left = kBlock;
  }
  --position.left;
  return 0.01 * RealResiduals()[position.worker][position.at++];
}

}  // namespace paceline::detect
