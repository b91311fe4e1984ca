// The report card of a drill, as people read it.
//
// Pure.
#ifndef CLI_DRILL_CORE_REPORT_CARD_H_
#define CLI_DRILL_CORE_REPORT_CARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/drill/core/judge.h"
#include "cli/drill/core/timeouts.h"

namespace paceline {

struct ReportCard {
  std::string job;  // Its name.
  int ranks = 0;
  int64_t steps = 0;  // Of each run.
  std::string where;  // "a cluster of its own".
  absl::Duration took;
  std::vector<DrillFinding> findings;  // In the order of the drill.
  std::vector<TimeoutLine> timeouts;
};

// What is not rehearsed does not fail.
int FailuresOf(const ReportCard& card);

// Several lines; the last one says whether it has passed.
std::string CardText(const ReportCard& card);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_REPORT_CARD_H_
