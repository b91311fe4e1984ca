#include "cli/view/restart_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/text/neutral.h"

namespace paceline {

std::string RestartCause(const v1::Job& job) {
  absl::string_view cause = job.restart_reason();
  absl::ConsumePrefix(
      &cause, absl::StrCat("restart ", job.restarts(), " of ", job.spec().max_restarts(), ": "));
  return NeutralLine(cause);
}

}  // namespace paceline
