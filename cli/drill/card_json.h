// The report card of a drill for programs.
#ifndef CLI_DRILL_CARD_JSON_H_
#define CLI_DRILL_CARD_JSON_H_

#include <string>

#include "cli/drill/core/report_card.h"

namespace paceline {

// {"job", "ranks", "steps", "passed", "checks": [...], "timeouts": [...]}, with times in seconds.
std::string CardJson(const ReportCard& card);

}  // namespace paceline

#endif  // CLI_DRILL_CARD_JSON_H_
