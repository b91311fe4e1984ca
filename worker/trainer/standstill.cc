#include "worker/trainer/standstill.h"

#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/evaluation.h"

namespace paceline {
namespace {

// "a/b.safetensors" becomes "a/b.rank3.safetensors".
std::string ExportPath(const std::string& file, int rank) {
  constexpr absl::string_view kSuffix = ".safetensors";
  return absl::StrCat(absl::StripSuffix(file, kSuffix), ".rank", rank, kSuffix);
}

absl::Status WriteWeights(const TrainingParts& parts, const std::string& path) {
  const absl::Status saved = SaveWeights(path, parts.model, parts.config.save_nan);
  if (absl::IsFailedPrecondition(saved)) return absl::InvalidArgumentError(saved.message());
  if (!saved.ok()) return absl::InternalError(saved.message());
  PACELINE_LOG(INFO) << "saved " << path;
  return absl::OkStatus();
}

}  // namespace

void CheckGeneration(const TrainingParts& parts) {
  if (parts.is_over()) throw CollectiveError("training", "the generation is over");
}

absl::StatusOr<bool> EvaluateAfter(const TrainingParts& parts, int64_t steps_done) {
  int64_t& evaluated = parts.state.position.evaluated;
  if (parts.eval_data == nullptr || evaluated == steps_done) return false;
  const auto on_progress = [&](int64_t done, int64_t all) {
    CheckGeneration(parts);
    parts.timer.ShowEvaluation(steps_done, done, all);
  };
  const absl::Cleanup is_idle = [&] { parts.timer.Enter(Phase::kIdle, steps_done); };
  PACELINE_ASSIGN_OR_RETURN(const EvaluationResult result,
                            Evaluate(parts.config, *parts.eval_data, parts.model,
                                     parts.groups.all(), steps_done, on_progress));
  evaluated = steps_done;
  parts.control.SetEvaluation(result);
  PACELINE_LOG(INFO) << absl::StrFormat(
      "evaluated step=%d %sloss=%.9g samples=%d", result.step,
      result.accuracy ? absl::StrFormat("accuracy=%.6f ", *result.accuracy) : "", result.loss,
      result.samples);
  return true;
}

absl::Status EndTraining(const TrainingParts& parts, const std::function<void()>& make_equal,
                         const std::function<void()>& save) {
  const TrainerConfig& config = parts.config;
  TrainingState& state = parts.state;
  // Rank 0 may write for long while the others wait for it.
  parts.groups.SetTimeout(config.startup_timeout);
  if (!config.export_final.empty() && state.exported_as != config.rank()) {
    PACELINE_RETURN_IF_ERROR(WriteWeights(parts, ExportPath(config.export_final, config.rank())));
    state.exported_as = config.rank();
  }
  if (!state.position.final_mean) {
    make_equal();
    state.position.final_mean = true;
  }
  if (parts.saver != nullptr) save();
  PACELINE_RETURN_IF_ERROR(EvaluateAfter(parts, config.steps).status());
  if (config.rank() == 0 && !config.checkpoint.directory.empty()) {
    PACELINE_RETURN_IF_ERROR(WriteWeights(parts, config.output_directory() + "/final.safetensors"));
  }
  if (parts.saver != nullptr) parts.saver->Finish();
  parts.groups.all().Barrier();
  return absl::OkStatus();
}

}  // namespace paceline
