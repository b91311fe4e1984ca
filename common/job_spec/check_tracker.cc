// Where a job's curves go. A spec is stored, and shown to whoever may see the job, so it holds no
// secrets.
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

// Whether it has "USER:PASSWORD@" before the host. A password may hold a slash, and so end what
// looks like the host; then that has no number for a port.
bool HasSecret(absl::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme == absl::string_view::npos) return false;
  const absl::string_view rest = uri.substr(scheme + 3);
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const size_t colon = authority.rfind(':');
  const bool has_port = colon == absl::string_view::npos || absl::EndsWith(authority, "]") ||
                        authority.find_first_not_of("0123456789", colon + 1) == authority.npos;
  return absl::StrContains(authority, '@') || (!has_port && absl::StrContains(rest, '@')) ||
         absl::StrContains(absl::AsciiStrToLower(uri), "password=");
}

void CheckMlflow(const std::string& uri, ProblemList& problems) {
  constexpr char kField[] = "tracker.mlflow.uri";
  if (uri.empty()) {
    problems.Add(kField, "is missing; give the server or store, as http://HOST:PORT");
  } else if (HasSecret(uri)) {
    // The value is left out: messages are logged.
    problems.Add(kField,
                 "has a user or a password in it, which everybody who sees the job would see; set "
                 "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                 "MLFLOW_TRACKING_TOKEN, where `python3 -m paceline.track` runs");
  } else if (!absl::StrContains(uri, "://") && uri != "databricks") {
    problems.Add(kField,
                 "has no scheme; allowed is http://HOST:PORT, https://HOST, file:///FOLDER or "
                 "sqlite:////FILE");
  }
}

}  // namespace

void CheckTracker(const v1::Tracker& tracker, ProblemList& problems) {
  if (tracker.has_tensorboard() && tracker.tensorboard().directory().empty()) {
    problems.Add("tracker.tensorboard.directory", "is missing; give the folder of TensorBoard");
  }
  if (tracker.has_mlflow()) CheckMlflow(tracker.mlflow().uri(), problems);
  if (tracker.has_wandb() && tracker.wandb().project().empty()) {
    problems.Add("tracker.wandb.project", "is missing; give the name of the project");
  }
}

}  // namespace paceline
