#include "controller/core/stragglers/ladder/ladder_model.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace paceline {
namespace {

// How many successive groups of `inner` make up each of `outer`; nothing: they do not fit.
std::optional<std::vector<size_t>> PartsOf(const std::vector<int>& outer,
                                           const std::vector<int>& inner) {
  std::vector<size_t> parts;
  size_t next = 0;
  for (const int size : outer) {
    const size_t first = next;
    int filled = 0;
    while (filled < size && next < inner.size()) filled += inner[next++];
    if (filled != size) return std::nullopt;
    parts.push_back(next - first);
  }
  if (next != inner.size()) return std::nullopt;
  return parts;
}

}  // namespace

LadderModel::LadderModel(const OwnTimes& times, const std::vector<int>& gradient_groups) {
  units_.groups.assign(static_cast<size_t>(times.ranks), 1);
  units_.values.assign(times.seconds.begin(), times.seconds.end());
  synchronous_.reserve(static_cast<size_t>(times.steps));
  for (auto row = times.seconds.begin(); row != times.seconds.end(); row += times.ranks) {
    synchronous_.push_back(*std::max_element(row, row + times.ranks));
  }
  if (!gradient_groups.empty()) units_ = Widen(units_, gradient_groups);
}

LadderModel::Table LadderModel::Sum(const Table& table, int64_t windows) {
  const size_t columns = table.groups.size();
  const size_t rows = table.values.size() / columns / static_cast<size_t>(windows);
  Table sum{table.groups, std::vector<double>(rows * columns)};
  const double* in = table.values.data();
  for (size_t row = 0; row < rows; ++row) {
    double* const out = &sum.values[row * columns];
    for (int64_t window = 0; window < windows; ++window, in += columns) {
      for (size_t i = 0; i < columns; ++i) out[i] += in[i];
    }
  }
  return sum;
}

LadderModel::Table LadderModel::Widen(const Table& table, const std::vector<int>& groups) {
  const auto parts = PartsOf(groups, table.groups);
  if (!parts.has_value()) {
    // Groups inside those whose ranks wait for one another anyway change nothing.
    return PartsOf(table.groups, groups).has_value() ? table : Table{groups, {}};
  }
  const size_t rows = table.values.size() / table.groups.size();
  Table wide{groups, std::vector<double>(rows * groups.size())};
  const double* in = table.values.data();
  double* out = wide.values.data();
  for (size_t row = 0; row < rows; ++row) {
    for (const size_t part : *parts) {
      *out++ = *std::max_element(in, in + part);
      in += part;
    }
  }
  return wide;
}

const LadderModel::Table& LadderModel::FirstLevel(const ModelLevel& level) {
  const auto [known, is_new] = first_levels_.try_emplace({level.period, level.groups});
  if (is_new) {
    auto sum = sums_.find(level.period);
    if (sum == sums_.end()) sum = sums_.emplace(level.period, Sum(units_, level.period)).first;
    known->second = Widen(sum->second, level.groups);
  }
  return known->second;
}

std::vector<double> LadderModel::Cycles(const std::vector<ModelLevel>& levels) {
  if (levels.empty() || levels.front().period < 1 ||
      levels.back().period > static_cast<int64_t>(synchronous_.size()) ||
      levels.back().groups.size() != 1) {
    return {};
  }
  const Table* table = &FirstLevel(levels.front());
  Table wider;
  for (size_t level = 1; level < levels.size() && !table->values.empty(); ++level) {
    const int64_t inner = levels[level - 1].period;
    if (levels[level].period % inner != 0) return {};
    wider = Widen(Sum(*table, levels[level].period / inner), levels[level].groups);
    table = &wider;
  }
  return table->values;
}

}  // namespace paceline
