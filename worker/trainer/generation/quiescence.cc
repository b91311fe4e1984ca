#include "worker/trainer/generation/quiescence.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/boot_clock.h"
#include "common/core/hold_pause.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/checkpoint/file_error.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/report/figures.h"

namespace paceline {
namespace {

// Pause between two tries when only some ranks know of an order to save elsewhere.
constexpr absl::Duration kOrderPause = absl::Seconds(1);

// Turns "a/b.safetensors" into "a/b.rank3.safetensors".
std::string ExportPath(const std::string& file, int rank) {
  constexpr absl::string_view kSuffix = ".safetensors";
  return absl::StrCat(absl::StripSuffix(file, kSuffix), ".rank", rank, kSuffix);
}

absl::Status WriteWeights(const TrainingParts& parts, const ModelTensors& model,
                          const std::string& path) {
  const absl::Status saved = SaveWeights(path, model, parts.config.save_nan);
  if (absl::IsFailedPrecondition(saved)) return absl::InvalidArgumentError(saved.message());
  if (saved.ok()) PACELINE_LOG(INFO) << "saved " << path;
  return saved;
}

std::string TimeOfDay(absl::Time time) {
  return absl::FormatTime("%H:%M:%S", time, absl::UTCTimeZone());
}

// Counts of ranks that: have not written their part, give up, should stop, have an order to save
// elsewhere, have the same one as rank 0.
struct Ballot {
  int64_t unwritten = 0;
  int64_t gives_up = 0;
  int64_t stops = 0;
  int64_t ordered = 0;
  int64_t agrees = 0;
};

Ballot SumOfAll(const TrainingParts& parts, const Ballot& own) {
  at::Tensor sum = at::tensor(
      std::vector<double>{static_cast<double>(own.unwritten), static_cast<double>(own.gives_up),
                          static_cast<double>(own.stops), static_cast<double>(own.ordered),
                          static_cast<double>(own.agrees)},
      at::TensorOptions().dtype(at::kDouble).device(parts.workload.model().device()));
  parts.groups.all().Sum(sum);
  const at::Tensor host = sum.cpu();
  const double* const counts = host.const_data_ptr<double>();
  return {static_cast<int64_t>(counts[0]), static_cast<int64_t>(counts[1]),
          static_cast<int64_t>(counts[2]), static_cast<int64_t>(counts[3]),
          static_cast<int64_t>(counts[4])};
}

int64_t OrderElsewhere(const TrainingParts& parts) {
  return parts.saver == nullptr ? 0 : parts.saver->OrderElsewhere();
}

int64_t OfFirst(const TrainingParts& parts, int64_t order) {
  const at::Tensor first =
      at::tensor(std::vector<double>{static_cast<double>(order)},
                 at::TensorOptions().dtype(at::kDouble).device(parts.workload.model().device()));
  parts.groups.all().CopyFromFirst({first});
  return static_cast<int64_t>(first.item<double>());
}

// The error of a rank that gives up.
absl::Status Loss(const TrainingParts& parts, const absl::Status& cause) {
  if (!MayPass(cause)) return cause;
  return absl::InternalError(
      absl::StrCat("the state after step ", parts.config.steps, " could not be written for ",
                   absl::FormatDuration(kHoldPatience), ", and all steps",
                   parts.saver == nullptr ? "" : " since the newest checkpoint",
                   " are lost: ", cause.message()));
}

SaveStatus NothingSaved(const TrainingParts& parts) {
  SaveStatus save;
  save.generation = parts.config.member.generation;
  save.step = parts.config.steps;
  return save;
}

// `span` says since and until when, for people.
void TellHold(const TrainingParts& parts, const absl::Status& cause, const std::string& span) {
  const std::string elsewhere = absl::StrCat(", save it elsewhere with `paceline checkpoint save ",
                                             parts.config.id.job.value(), " --to DIR`");
  const std::string what = absl::StrCat(cause.message(), "; the state is held ", span,
                                        ", and written as soon as that works: mend the cause",
                                        parts.saver == nullptr ? "" : elsewhere,
                                        ", or give the steps up with `paceline job cancel`");
  if (parts.saver != nullptr) return parts.saver->TellHold(parts.config.steps, cause, what);
  PACELINE_LOG(WARNING) << "held step=" << parts.config.steps << ": " << what;
  SaveStatus save = NothingSaved(parts);
  save.failure = FailureOf(cause);
  save.error = what;
  parts.control.SetSave(save);
}

void TellHoldOver(const TrainingParts& parts) {
  if (parts.saver != nullptr) return parts.saver->TellHoldOver();
  parts.control.SetSave(NothingSaved(parts));
}

// Waits; ends early on an order to save elsewhere that is not `known`.
void WaitHere(const TrainingParts& parts, absl::Duration pause, int64_t known) {
  const absl::Time end = BootNow() + pause;
  while (BootNow() < end && !parts.control.stop_requested() && OrderElsewhere(parts) == known) {
    CheckGeneration(parts);
    absl::SleepFor(std::min(end - BootNow(), absl::Milliseconds(100)));
  }
}

// Returns 0 when all ranks have written their parts. `own` is the result of this rank's part;
// `again` writes it once more. All ranks wait for those that cannot write; if all get the same
// order to save elsewhere, returns its number. Errors as for CompleteEnd.
absl::StatusOr<int64_t> WriteOrHold(const TrainingParts& parts, absl::Status own,
                                    const std::function<absl::Status()>& again) {
  const absl::Time since = BootNow();
  const std::string span = absl::StrCat("since ", TimeOfDay(absl::Now()), " until ",
                                        TimeOfDay(absl::Now() + kHoldPatience), " UTC");
  bool held = false;
  for (int tries = 1;; ++tries) {
    const std::optional<absl::Duration> pause = PauseBeforeNextTry(tries, BootNow() - since);
    const bool gives_up = !own.ok() && (!MayPass(own) || !pause.has_value());
    const int64_t order = OrderElsewhere(parts);
    const int64_t proposed = OfFirst(parts, order);
    const Ballot all =
        SumOfAll(parts, {own.ok() ? 0 : 1, gives_up ? 1 : 0, parts.control.stop_requested() ? 1 : 0,
                         order > 0 ? 1 : 0, order > 0 && order == proposed ? 1 : 0});
    if (all.unwritten == 0) break;
    if (gives_up) return Loss(parts, own);
    if (all.stops > 0) return absl::UnavailableError("stopped before all was written");
    if (all.gives_up > 0)
      throw CollectiveError("end of training", "a rank could not write its part");
    if (all.agrees == parts.config.member.world_size) {
      if (held) TellHoldOver(parts);
      return proposed;
    }
    if (!own.ok()) {
      held = true;
      TellHold(parts, own, span);
    }
    const absl::Duration usual = pause.value_or(kMaxHoldPause);
    // The other ranks will get the order in a moment.
    WaitHere(parts, all.ordered > 0 ? std::min(usual, kOrderPause) : usual, order);
    if (!own.ok()) own = again();
  }
  if (held) TellHoldOver(parts);
  return 0;
}

absl::StatusOr<int64_t> WriteOrHold(const TrainingParts& parts,
                                    const std::function<absl::Status()>& write) {
  return WriteOrHold(parts, write(), write);
}

// Makes the shards of all ranks a complete checkpoint. Result as for WriteOrHold.
absl::StatusOr<int64_t> FinishCheckpoint(const TrainingParts& parts, bool* complete) {
  Saver& saver = *parts.saver;
  PACELINE_ASSIGN_OR_RETURN(const int64_t order,
                            WriteOrHold(parts, [&] { return saver.FinishShard(); }));
  if (order > 0 || !saver.IsDurableOnAll()) return order;
  PACELINE_ASSIGN_OR_RETURN(const int64_t elsewhere, WriteOrHold(parts, [&] {
                              return parts.config.rank() == 0 ? saver.FinishCommit()
                                                              : absl::OkStatus();
                            }));
  *complete = elsewhere == 0;
  return elsewhere;
}

// Writes the final weights and the checkpoint; if that fails, into the directory of an order that
// arrives meanwhile.
absl::Status FinishWriting(const TrainingParts& parts) {
  Saver& saver = *parts.saver;
  const auto weights = [&]() -> absl::Status {
    // No rank has all weights of a sharded model; the checkpoint has them.
    if (parts.config.rank() != 0 || parts.config.member.shards > 1) return absl::OkStatus();
    PACELINE_ASSIGN_OR_RETURN(const std::string directory, saver.DirectoryAtEnd());
    return WriteWeights(parts, parts.workload.model(), directory + "/final.safetensors");
  };
  absl::Status written = weights();  // Beside the shards.
  bool complete = false;
  while (true) {
    int64_t elsewhere = 0;
    if (!complete) {
      PACELINE_ASSIGN_OR_RETURN(elsewhere, FinishCheckpoint(parts, &complete));
    }
    if (elsewhere == 0) {
      PACELINE_ASSIGN_OR_RETURN(elsewhere, WriteOrHold(parts, written, weights));
    }
    if (elsewhere == 0) return absl::OkStatus();
    if (saver.SaveElsewhere(parts.config.steps, elsewhere, complete)) complete = false;
    written = weights();
  }
}

}  // namespace

void CheckGeneration(const TrainingParts& parts) {
  if (parts.is_over()) throw CollectiveError("training", "the generation is over");
}

bool JobEvaluation::IsDue(int64_t steps_done) const {
  return parts_.workload.evaluates() && parts_.state.position.evaluated != steps_done;
}

void JobEvaluation::Begin(int64_t steps_done) {
  steps_done_ = steps_done;
  const at::NoGradGuard no_grad;
  LaneOf(parts_).CopyFromFirst(TensorsOf(parts_.workload.model().buffers()));
}

void JobEvaluation::ShowProgress(int64_t done, int64_t all) {
  CheckGeneration(parts_);
  parts_.timer.ShowEvaluation(steps_done_, done, all);
}

void JobEvaluation::End(const Score& own, int64_t samples) {
  at::Tensor sums =
      at::tensor({own.loss, own.correct, own.predictions, static_cast<double>(samples)},
                 at::kDouble)
          .to(parts_.workload.model().device());
  parts_.groups.all().Sum(sums);
  sums = sums.cpu();
  const double* const total = sums.const_data_ptr<double>();
  EvaluationResult result;
  result.step = steps_done_;
  result.loss = total[0] / total[2];
  if (total[1] >= 0) result.accuracy = total[1] / total[2];
  result.samples = static_cast<int64_t>(total[3]);
  parts_.state.position.evaluated = steps_done_;
  parts_.control.SetEvaluation(result);
  PACELINE_LOG(INFO) << absl::StrFormat(
      "evaluated step=%d %sloss=%.9g samples=%d", result.step,
      result.accuracy ? absl::StrFormat("accuracy=%.6f ", *result.accuracy) : "", result.loss,
      result.samples);
  CutOff();
}

void JobEvaluation::CutOff() {
  if (steps_done_ >= 0) parts_.timer.Enter(Phase::kIdle, std::exchange(steps_done_, -1));
}

absl::Status PrepareEnd(const TrainingParts& parts, const std::function<void()>& make_equal,
                        const std::function<void()>& save) {
  const TrainerConfig& config = parts.config;
  TrainingState& state = parts.state;
  // Rank 0 may write for long while the others wait.
  parts.groups.SetTimeout(config.startup_timeout);
  if (!config.export_final.empty()) {
    // Before the first try, as it is collective.
    const std::shared_ptr<const ModelTensors> model = parts.workload.ModelToExport();
    PACELINE_RETURN_IF_ERROR(WriteOrHold(parts, [&] {
                               if (model == nullptr || state.exported_as == config.rank()) {
                                 return absl::OkStatus();
                               }
                               const absl::Status written = WriteWeights(
                                   parts, *model, ExportPath(config.export_final, config.rank()));
                               if (written.ok()) state.exported_as = config.rank();
                               return written;
                             }).status());
  }
  if (!state.position.final_mean) {
    make_equal();
    state.position.final_mean = true;
  }
  if (parts.saver != nullptr) save();
  return absl::OkStatus();
}

absl::Status CompleteEnd(const TrainingParts& parts) {
  if (parts.saver != nullptr) PACELINE_RETURN_IF_ERROR(FinishWriting(parts));
  parts.groups.all().Barrier();
  return absl::OkStatus();
}

}  // namespace paceline
