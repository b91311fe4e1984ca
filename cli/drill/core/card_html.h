// The report card of a drill as a page of its own.
//
// Pure.
#ifndef CLI_DRILL_CORE_CARD_HTML_H_
#define CLI_DRILL_CORE_CARD_HTML_H_

#include <string>

#include "cli/drill/core/report_card.h"

namespace paceline {

// One HTML document, UTF-8, that loads nothing else. What comes from the job is escaped.
std::string CardHtml(const ReportCard& card);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_CARD_HTML_H_
