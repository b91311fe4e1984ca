// What `paceline top` tells of jobs and ranks: tables as lines of text, the headings first.
//
// Pure.
#ifndef CLI_TOP_TOP_ROWS_H_
#define CLI_TOP_TOP_ROWS_H_

#include <string>
#include <vector>

#include "cli/top/top_model.h"
#include "cli/top/top_screen.h"
#include "cli/top/top_view.h"

namespace paceline {

std::vector<std::string> JobRows(const TopModel& model, const TopView& view, const TopStyle& style);

// Of the one job that is shown. `now` tells since when ranks are not heard of.
std::vector<std::string> RankRows(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now);

// Two lines about it.
std::vector<std::string> JobHead(const TopModel& model, const TopView& view, const TopStyle& style);

}  // namespace paceline

#endif  // CLI_TOP_TOP_ROWS_H_
