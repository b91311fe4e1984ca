// Prints the tables of docs/metrics.md, made of the tables of families from which the daemons
// register their metrics, as Markdown. `make docs` writes them there.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/metrics/metric_family.h"
#include "controller/metrics/metric_families.h"
#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

std::string Labels(const MetricFamily& family) {
  if (*family.labels == '\0') return "";
  const std::vector<std::string> names = absl::StrSplit(family.labels, ' ');
  return absl::StrCat("`", absl::StrJoin(names, "`, `"), "`");
}

std::string Buckets(const MetricFamily& family) {
  if (family.buckets.empty()) return "";
  return absl::StrCat(" Buckets: ", absl::StrJoin(family.buckets, ", "), ".");
}

void PrintTable(const std::string& program, const std::vector<MetricFamily>& families) {
  std::cout << "\n### " << program << "\n\n| Metric | Type | Unit | Labels | Meaning |\n"
            << "| --- | --- | --- | --- | --- |\n";
  for (const MetricFamily& family : families) {
    std::cout << "| `" << family.name << "` | " << NameOf(family.type) << " | " << family.unit
              << " | " << Labels(family) << " | " << family.help << Buckets(family) << " |\n";
  }
}

}  // namespace
}  // namespace paceline

int main() {
  paceline::PrintTable("Of the controller", paceline::ControllerFamilies());
  paceline::PrintTable("Of a worker", paceline::WorkerFamilies());
}
