#include "slipstream/group_steps.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace paceline {
namespace {

using Kind = ComputeOrder::Kind;

constexpr Kind kCarriedOut[] = {Kind::kUpdate, Kind::kGradient, Kind::kStop, Kind::kEnd};

}  // namespace

std::vector<double> GroupSteps::Numbers(Kind kind) {
  std::vector<double> numbers;
  for (const Kind one : kCarriedOut) numbers.push_back(one == kind ? 1 : 0);
  return numbers;
}

bool GroupSteps::Agree(absl::Span<const double> sums, Kind kind, int64_t update_periods) {
  const auto* const found = std::find(std::begin(kCarriedOut), std::end(kCarriedOut), kind);
  if (found == std::end(kCarriedOut)) return false;
  if (sums[static_cast<size_t>(found - std::begin(kCarriedOut))] != ranks_) return false;
  if (kind == Kind::kGradient) left_ = update_periods;
  return true;
}

}  // namespace paceline
