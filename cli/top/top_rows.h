// Tables of jobs and ranks for `paceline top`, as lines of text, headings first.
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

// Ranks of the one job that is shown. `now` is needed for when ranks were last heard from.
std::vector<std::string> RankRows(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now);

// Two lines about the job.
std::vector<std::string> JobHead(const TopModel& model, const TopView& view, const TopStyle& style);

}  // namespace paceline

#endif  // CLI_TOP_TOP_ROWS_H_
