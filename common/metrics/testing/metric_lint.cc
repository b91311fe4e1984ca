#include "common/metrics/testing/metric_lint.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

// A name must end in a base unit; a counter's then has "_total".
constexpr const char* kBaseUnits[] = {"seconds", "bytes", "ratio", "celsius", "joules", "hertz"};
// Fractions, multiples and abbreviations of those units.
constexpr const char* kOtherUnits[] = {"ms",    "us",      "ns",    "milliseconds", "minutes",
                                       "hours", "percent", "kb",    "kilobytes",    "megabytes",
                                       "bits",  "watts",   "mhz",   "sec",          "secs",
                                       "days",  "gb",      "nanos", "microseconds", "mib"};
// With these suffixes, a series could be confused with one of a histogram.
constexpr const char* kReservedSuffixes[] = {"_bucket", "_count", "_sum"};

bool IsName(absl::string_view name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

std::vector<std::string> LabelsOf(const MetricFamily& family) {
  return absl::StrSplit(family.labels, ' ', absl::SkipEmpty());
}

void CheckName(const MetricFamily& family, std::vector<std::string>& faults) {
  const absl::string_view name = family.name;
  const bool is_counter = family.type == MetricType::kCounter;
  if (!IsName(name)) faults.push_back("is no name in snake_case");
  if (absl::EndsWith(name, "_total") != is_counter) {
    faults.push_back("must end in _total if, and only if, it is a counter");
  }
  for (const char* suffix : kReservedSuffixes) {
    if (absl::EndsWith(name, suffix)) faults.push_back(absl::StrCat("ends in ", suffix));
  }
  const std::vector<std::string> words = absl::StrSplit(name, '_');
  for (const char* unit : kOtherUnits) {
    if (std::count(words.begin(), words.end(), unit) > 0) {
      faults.push_back(absl::StrCat("has \"", unit, "\", which is no base unit"));
    }
  }
  const absl::string_view stem = absl::StripSuffix(name, "_total");
  const absl::string_view unit = family.unit;
  for (const char* base : kBaseUnits) {
    if (unit == base && !absl::EndsWith(stem, absl::StrCat("_", base))) {
      faults.push_back(absl::StrCat("is in ", base, " and does not end in it"));
    }
    if (unit != base && absl::EndsWith(stem, absl::StrCat("_", base))) {
      faults.push_back(absl::StrCat("ends in ", base, " and is in ", unit));
    }
  }
  if ((unit == "info") != absl::EndsWith(name, "_info")) {
    faults.push_back("must end in _info if, and only if, its unit is info");
  }
}

void CheckText(const MetricFamily& family, std::vector<std::string>& faults) {
  const absl::string_view help = family.help;
  if (help.empty() || help.back() != '.') faults.push_back("has a help that is no sentence");
  if (absl::string_view(family.unit).empty()) faults.push_back("has no unit");
  const std::vector<std::string> labels = LabelsOf(family);
  for (const std::string& label : labels) {
    if (!IsName(label)) faults.push_back(absl::StrCat("has the label \"", label, "\""));
    // Reserved for targets, histograms and summaries.
    if (label == "job" || label == "instance" || label == "le" || label == "quantile") {
      faults.push_back(absl::StrCat("has the label ", label, ", which is Prometheus'"));
    }
  }
  if (std::set<std::string>(labels.begin(), labels.end()).size() != labels.size()) {
    faults.push_back("has a label twice");
  }
}

void CheckBuckets(const MetricFamily& family, std::vector<std::string>& faults) {
  const std::vector<double>& buckets = family.buckets;
  if ((family.type == MetricType::kHistogram) == buckets.empty()) {
    faults.push_back("must have buckets if, and only if, it is a histogram");
  }
  if (std::adjacent_find(buckets.begin(), buckets.end(), std::greater_equal<>()) != buckets.end()) {
    faults.push_back("has buckets that do not grow");
  }
}

}  // namespace

std::vector<std::string> LintMetrics(const std::vector<MetricFamily>& families) {
  std::vector<std::string> all;
  std::set<std::string> names;
  for (const MetricFamily& family : families) {
    std::vector<std::string> faults;
    if (!names.insert(family.name).second) faults.push_back("is there twice");
    CheckName(family, faults);
    CheckText(family, faults);
    CheckBuckets(family, faults);
    for (const std::string& fault : faults) all.push_back(absl::StrCat(family.name, " ", fault));
  }
  return all;
}

}  // namespace paceline
