#include "worker/trainer/core/device_peak.h"

#include "absl/strings/ascii.h"

namespace paceline {
namespace {

struct Entry {
  absl::string_view name;  // In lower case.
  double peak;
};

// From the vendors' data sheets: dense, bfloat16.
constexpr Entry kPeaks[] = {
    {"a100", 312e12},   {"a6000", 154.85e12}, {"h100 nvl", 835e12}, {"h100 pcie", 756e12},
    {"h100", 989e12},   {"h200", 989e12},     {"h20", 148e12},      {"gb200", 2.5e15},
    {"gb300", 2.5e15},  {"b200", 2.25e15},    {"b300", 2.25e15},    {"mi355x", 2.5e15},
    {"mi300x", 1.3e15}, {"mi325x", 1.3e15},   {"mi250x", 191.5e12}, {"l40s", 362e12},
};

// Whether `name` contains `part`, not followed by more digits ("A100" in "A1000").
bool Names(absl::string_view name, absl::string_view part) {
  for (size_t at = name.find(part); at != name.npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if (end == name.size() || !absl::ascii_isdigit(static_cast<unsigned char>(name[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<double> DevicePeakFlops(absl::string_view device_name) {
  const std::string name = absl::AsciiStrToLower(device_name);
  const Entry* best = nullptr;
  for (const Entry& entry : kPeaks) {
    if (!Names(name, entry.name)) continue;
    if (best == nullptr || entry.name.size() > best->name.size()) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return best->peak;
}

std::optional<double> Mfu(double flops, double seconds, double peak_flops) {
  if (!(flops > 0) || !(seconds > 0)) return std::nullopt;
  const double mfu = flops / seconds / peak_flops;
  if (!(mfu <= 1)) return std::nullopt;
  return mfu;
}

}  // namespace paceline
