#include "cli/view/global_batch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

int64_t PassesOf(const v1::JobSpec& spec) { return std::max(1, spec.accumulation_steps()); }

// "128 (4 ranks x 16 x 2)".
std::string BatchText(const v1::JobSpec& spec) {
  return absl::StrCat(GlobalBatch(spec), " (", spec.ranks(), spec.ranks() == 1 ? " rank" : " ranks",
                      " x ", spec.batch_per_rank(), " x ", PassesOf(spec), ")");
}

// Each alone would keep the global batch.
std::vector<std::string> FlagsThatKeep(int64_t batch, const v1::JobSpec& after,
                                       const v1::ResumeJobRequest& request) {
  std::vector<std::string> flags;
  const auto add = [&](bool free, const char* flag, int64_t others) {
    if (free && others > 0 && batch % others == 0) {
      flags.push_back(absl::StrCat(flag, " ", batch / others));
    }
  };
  const int64_t ranks = after.ranks();
  add(request.accumulation_steps() == 0, "--accumulation-steps", ranks * after.batch_per_rank());
  add(request.batch_per_rank() == 0, "--batch-per-rank", ranks * PassesOf(after));
  return flags;
}

}  // namespace

int64_t GlobalBatch(const v1::JobSpec& spec) {
  return int64_t{spec.ranks()} * spec.batch_per_rank() * PassesOf(spec);
}

std::string BatchChangeText(const v1::JobSpec& before, const v1::JobSpec& after,
                            const v1::ResumeJobRequest& request) {
  const int64_t batch = GlobalBatch(before);
  if (GlobalBatch(after) == batch) return "";
  const std::vector<std::string> flags = FlagsThatKeep(batch, after, request);
  return absl::StrCat(
      "the global batch was ", BatchText(before), " and is now ", BatchText(after), "; ",
      flags.empty()
          ? absl::StrCat("--ranks x --batch-per-rank x --accumulation-steps = ", batch, " keeps it")
          : absl::StrCat(absl::StrJoin(flags, " or "), " keeps it"));
}

}  // namespace paceline
