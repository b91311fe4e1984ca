#include "cli/view/membership_text.h"

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/text/table.h"
#include "cli/view/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

std::string RanksText(const v1::MembershipChange& change) {
  if (change.ranks_before() == change.ranks_after()) return absl::StrCat(change.ranks_after());
  return absl::StrCat(change.ranks_before(), " to ", change.ranks_after());
}

}  // namespace

std::string FewerRanksText(const v1::Job& job) {
  if (job.ranks().empty() || job.ranks_size() == job.spec().ranks()) return "";
  return absl::StrCat(job.ranks_size(), " of ", job.spec().ranks(), " ranks");
}

std::string ChangeTable(const v1::Job& job, absl::Time now, int width, bool colours) {
  if (job.membership_changes().empty()) return "";
  Table table({{"GENERATION", true},
               {"AGO", true},
               {"TOOK", true},
               {"RANKS"},
               {"STEP", true},
               {"KIND"},
               {"WHY"}});
  for (const v1::MembershipChange& change : job.membership_changes()) {
    const bool newest = change.generation() == job.generation() && !HasEnded(job.state());
    const absl::Time begun = TimeOf(true, change.begin_time());
    const bool done = change.has_end_time();
    const double took = done ? absl::ToDoubleSeconds(TimeOf(true, change.end_time()) - begun) : 0;
    table.Add({absl::StrCat(change.generation()), DurationText(absl::ToDoubleSeconds(now - begun)),
               done     ? ShortDurationText(took)
               : newest ? "under way"
                        : "not done",
               RanksText(change), done ? absl::StrCat(change.step()) : "",
               change.planned() ? "planned" : "failure", NeutralLine(change.reason())});
  }
  return table.Rendered(width, colours);
}

}  // namespace paceline
