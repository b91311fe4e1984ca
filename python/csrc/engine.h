// The engine inside of a script's process: one rank of the job, whose steps the script makes. Each
// function is one that the Python classes call (python/paceline/session.py); the order of calls is
// that of TrainerRun.
#ifndef PYTHON_CSRC_ENGINE_H_
#define PYTHON_CSRC_ENGINE_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "python/csrc/script_workload.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/trainer_run.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// The step under way is cut off: a rank was lost, or the members change. Not a std::exception, so
// that nothing between takes it for an error.
struct Regroup {
  std::string text;
  const char* what() const { return text.c_str(); }
};

// The training has ended by an error. As above.
struct TrainingError {
  std::string text;
  const char* what() const { return text.c_str(); }
};

// Thread-compatible. Everything may block, so it is called without the GIL. Never destroyed before
// the process exits, like TrainerRun.
class Engine {
 public:
  struct Options {
    std::string directory;  // As for Control.
    std::string socket;
    std::string ring;  // Path of the step ring.
    absl::Duration orphan_timeout = absl::Minutes(10);
  };

  // Connects to the daemon and waits for the configuration. `platform` must outlive this. Throws
  // TrainingError; of what comes after the connection, the daemon has been told the reason.
  Engine(const Options& options, Platform& platform);

  const TrainerConfig& config() const { return run_->config(); }
  // Whether the job may train with Slipstream.
  bool may_slip() const;
  // Whether the script is to count the FLOPs of its first step, for its model (model_tensors.h).
  bool counts_flops() const { return config().count_flops && config().flops_per_sample == 0; }
  at::Device device() const { return run_->device(); }

  // Shows, in the step ring, a phase of a step that a spare makes by itself before Load. kIdle ends
  // the step. It has no record.
  void ShowRehearsal(Phase phase);

  // Restores from the checkpoint, if the job goes on from one, and says that this rank is ready.
  // Call it once. Throws TrainingError; so do all below, and Regroup.
  void Load(ScriptWorkload::Parts parts);
  ScriptWorkload& workload() { return *workload_; }

  // What is next; `learning_rate`: of the next step. Throws TrainingError, not Regroup.
  StepOrder Next(double learning_rate);

  // For a step.
  void BeginPass();
  void BeginForward(int64_t samples, int64_t tokens);
  void Backward(const at::Tensor& loss, const at::Tensor& shown);
  // In the backward pass of a sharded model: replaces a flat tensor by its mean over the ranks that
  // hold the same slices and share gradients. They all call it in the same order. Throws
  // CollectiveError.
  void TakeMean(at::Tensor gradients);
  // A sharded model is about to enter a collective. Any thread.
  void CountCollective() { ring_->CountCollective(); }
  // As LocalStep::BeforeUpdate.
  at::Tensor BeforeUpdate(std::optional<double> max_norm);
  void Updated();
  void EndStep();

  // A group of all members for the script's own collectives; null: this rank is alone. The first
  // call of a generation is collective. Throws c10::ValueError unless the strategy is ddp, as only
  // then all members are at the same step.
  c10::intrusive_ptr<c10d::ProcessGroup> TorchGroup();
  // As TrainerRun::AskForSave. Throws c10::ValueError without a checkpoint directory, and with
  // Slipstream.
  void Save();
  // As TrainerRun::Report.
  void Report(std::vector<ReportedNumber> numbers) { run_->Report(std::move(numbers)); }
  // As Control::SetArtifact. Any thread, until Finish.
  void ReportArtifact(const Artifact& artifact) { control_->SetArtifact(artifact); }
  // As TrainerRun::GiveUpProfile.
  void GiveUpProfile(const std::string& why) { run_->GiveUpProfile(why); }

  // For an evaluation.
  void ShowProgress(int64_t done, int64_t all);
  void EndEvaluation(const Score& score, int64_t samples);

  // Whether an exception that the script has seen only follows from a lost rank: then the step
  // counts as cut off. `collective`: its type says that it comes from a collective.
  bool CutOff(const std::string& what, bool collective);
  // Ends the training: the script has failed.
  void Fail(const std::string& what);
  // Reports the end. Returns the exit code.
  int Finish();

  // Whether the process may have threads that hang in a group that was broken.
  bool is_broken() const { return run_->has_broken_groups(); }

 private:
  void Make(const std::function<absl::Status()>& part);
  [[noreturn]] void ThrowEnd();

  std::unique_ptr<StepRingWriter> ring_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<TrainerRun> run_;
  std::unique_ptr<ScriptWorkload> workload_;
};

}  // namespace paceline

#endif  // PYTHON_CSRC_ENGINE_H_
