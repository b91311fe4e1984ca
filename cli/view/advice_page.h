// What is known of a job's stragglers now, and what is advised.
#ifndef CLI_VIEW_ADVICE_PAGE_H_
#define CLI_VIEW_ADVICE_PAGE_H_

#include <string>

#include "cli/view/page.h"
#include "proto/straggler.pb.h"

namespace paceline {

// `job`: as it can be typed.
std::string AdvicePage(const v1::JobAdvice& advice, const std::string& job, const PageStyle& style);

}  // namespace paceline

#endif  // CLI_VIEW_ADVICE_PAGE_H_
