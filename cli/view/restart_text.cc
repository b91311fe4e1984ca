#include "cli/view/restart_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/text/neutral.h"

namespace paceline {

std::string RestartCause(const v1::Job& job) {
  absl::string_view cause = job.restart_reason();
  const std::string number = absl::StrCat("restart ", job.restarts());
  if (!absl::ConsumePrefix(&cause, absl::StrCat(number, " of ", job.spec().max_restarts(), ": "))) {
    absl::ConsumePrefix(&cause, absl::StrCat(number, ": "));
  }
  return NeutralLine(cause);
}

std::string RestartsOf(const v1::Job& job) {
  // Without max_restarts they are within the budget of recovery.
  if (job.spec().max_restarts() == 0) return absl::StrCat(job.restarts());
  return absl::StrCat(job.restarts(), " of ", job.spec().max_restarts());
}

}  // namespace paceline
