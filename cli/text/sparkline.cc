#include "cli/text/sparkline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace paceline {
namespace {

constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* kAscii[] = {"_", ".", "-", "=", "*", "#"};

bool IsThere(double value) { return std::isfinite(value) && value > 0; }

// Returns one mean per column; 0: a gap.
std::vector<double> Columns(const std::vector<double>& values, int width) {
  const size_t columns = std::min(values.size(), static_cast<size_t>(std::max(0, width)));
  std::vector<double> means;
  for (size_t i = 0; i < columns; ++i) {
    double sum = 0;
    int count = 0;
    for (size_t j = i * values.size() / columns; j < (i + 1) * values.size() / columns; ++j) {
      if (!IsThere(values[j])) continue;
      sum += values[j];
      ++count;
    }
    means.push_back(count == 0 ? 0 : sum / count);
  }
  return means;
}

}  // namespace

std::string Sparkline(const std::vector<double>& values, int width, bool utf8) {
  const std::vector<double> columns = Columns(values, width);
  double low = INFINITY;
  double high = 0;
  for (const double value : columns) {
    if (!IsThere(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const int levels = utf8 ? 8 : 6;
  std::string line;
  for (const double value : columns) {
    if (!IsThere(value)) {
      line += ' ';
      continue;
    }
    // A constant series is drawn in the middle.
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    const int level = std::min(levels - 1, static_cast<int>(share * levels));
    line += utf8 ? kBlocks[level] : kAscii[level];
  }
  return line;
}

}  // namespace paceline
