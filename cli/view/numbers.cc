#include "cli/view/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto s = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (s < 60) return absl::StrCat(s, " s");
  if (s < 3600) return absl::StrFormat("%d min %02d s", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%d h %02d min", s / 3600, s / 60 % 60);
  return absl::StrFormat("%d d %d h", s / 86400, s / 3600 % 24);
}

std::string ShortDurationText(double seconds) {
  if (!(seconds >= 0 && seconds < 0.9995)) return DurationText(seconds);
  if (seconds < 0.0995) return absl::StrFormat("%.0f ms", seconds * 1000);
  return absl::StrFormat("%.2f s", seconds);
}

std::string LossText(double loss) {
  if (std::isnan(loss)) return "nan";  // printf would print its sign.
  if (loss != 0 && std::fabs(loss) < 1e-4) return absl::StrFormat("%.1e", loss);
  return absl::StrFormat("%.4f", loss);
}

std::string KnownLossText(double loss) { return loss == 0 ? "" : LossText(loss); }

std::string RateText(double per_second) {
  const int digits = per_second < 10 ? 2 : per_second < 100 ? 1 : 0;
  return absl::StrFormat("%.*f", digits, per_second);
}

std::string FlopRateText(double per_second) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; per_second >= 999.5 && unit + 1 < std::size(kUnits); ++unit) per_second /= 1000;
  return absl::StrCat(RateText(per_second), " ", kUnits[unit], "FLOP/s");
}

std::string PercentText(double share) { return absl::StrFormat("%.1f %%", share * 100); }

}  // namespace paceline
