// Slow ranks: the advice about them, decisions, and their effects.
#ifndef CLI_VIEW_STRAGGLER_REMEDY_PAGE_H_
#define CLI_VIEW_STRAGGLER_REMEDY_PAGE_H_

#include <string>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "proto/straggler.pb.h"

namespace paceline {

// `job`: a name that can be typed.
std::string AdvicePage(const v1::JobAdvice& advice, const std::string& job, const PageStyle& style);

// One row per decision.
std::string DecisionTable(const v1::ListDecisionsResponse& decisions, absl::Time now,
                          const PageStyle& style);

// "advice 3 is ordered by ann: hot-swap of rank 5 on n3".
std::string DecisionLine(const v1::RemedyDecision& decision, const PageStyle& style);

// One decision with everything that it rests on.
std::string DecisionPage(const v1::RemedyDecision& decision, absl::Time now,
                         const PageStyle& style);

}  // namespace paceline

#endif  // CLI_VIEW_STRAGGLER_REMEDY_PAGE_H_
