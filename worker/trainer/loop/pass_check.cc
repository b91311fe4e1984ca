#include "worker/trainer/loop/pass_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

absl::Status CheckSize(const Model& model, const DataConfig& data, int64_t samples,
                       const JobSize& size) {
  const int together = size.together == 0 ? size.ranks : size.together;
  PACELINE_RETURN_IF_ERROR(model.CheckBatch(size.batch, together));
  const int64_t rest = samples % (size.batch * size.ranks);
  if (data.drop_last || rest == 0) return absl::OkStatus();
  return CheckLastPass(model, rest, samples, size.ranks);
}

}  // namespace

absl::Status CheckPasses(const Model& model, const TrainerConfig& config, int64_t samples) {
  const Member& member = config.member;
  PACELINE_RETURN_IF_ERROR(
      CheckSize(model, config.data, samples, {member.world_size, member.batch}));
  for (const JobSize& size : config.sizes) {
    const absl::Status checked = CheckSize(model, config.data, samples, size);
    if (checked.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "with ", size.ranks, size.ranks == 1 ? " rank" : " ranks",
        ", which recovery.min_ranks and recovery.max_ranks allow: ", checked.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckLastPass(const Model& model, int64_t rest, int64_t samples, int ranks) {
  // The first ones may have one sample more.
  const int64_t active = std::min<int64_t>(rest, ranks);
  const absl::Status checked = model.CheckBatch(rest / active, static_cast<int>(active));
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat(
      "data.drop_last is false, and the last pass of an epoch has ", rest, " of the ", samples,
      " samples of data.train: ", checked.message(), ". Or leave data.drop_last out"));
}

}  // namespace paceline
