#include "python/csrc/engine.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <utility>

#include "common/core/status_macros.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/generation/quiescence.h"

namespace paceline {
namespace {

template <typename Value>
Value ValueOf(absl::StatusOr<Value> value) {
  if (!value.ok()) throw TrainingError{std::string(value.status().message())};
  return *std::move(value);
}

}  // namespace

Engine::Engine(const Options& options, Platform& platform) {
  ring_ = std::make_unique<StepRingWriter>(ValueOf(StepRingWriter::Open(options.ring)));
  Control::Options control;
  control.socket = options.socket;
  control.directory = options.directory;
  control.orphan_timeout = options.orphan_timeout;
  control.guest = true;
  control_ = ValueOf(Control::Start(control));
  run_ = std::make_unique<TrainerRun>(*control_, *ring_, platform, options.directory);
  run_->Open();
  if (run_->ok()) return;
  run_->Finish();  // The caller does not get this object.
  ThrowEnd();
}

bool Engine::may_slip() const {
  const StrategyConfig::Kind kind = config().strategy.kind;
  return kind == StrategyConfig::Kind::kSlipstream || kind == StrategyConfig::Kind::kAuto;
}

void Engine::ShowRehearsal(Phase phase) {
  // The next phase begins a step anew, and none is recorded until then.
  if (phase == Phase::kIdle) ring_->EndStep(0);
  ring_->Enter(phase, 0);
}

void Engine::Load(ScriptWorkload::Parts parts) {
  workload_ = std::make_unique<ScriptWorkload>(std::move(parts));
  run_->Load(*workload_);
  if (!run_->ok()) ThrowEnd();
}

StepOrder Engine::Next(double learning_rate) {
  workload_->SetLearningRate(learning_rate);
  const StepOrder order = run_->Next();
  if (!run_->ok()) ThrowEnd();
  return order;
}

void Engine::BeginPass() {
  Make([this] {
    workload_->tensors().CheckStorage();
    run_->step().BeginPass();
    return absl::OkStatus();
  });
}

void Engine::BeginForward(int64_t samples, int64_t tokens) {
  Make([&] {
    const auto work = static_cast<double>(tokens > 0 ? tokens : samples);
    const bool counts = !workload_->repeats_samples();
    run_->step().BeginForward({counts ? samples : 0, counts ? tokens : 0, work});
    return absl::OkStatus();
  });
}

void Engine::Backward(const at::Tensor& loss, const at::Tensor& shown) {
  Make([&] {
    run_->step().Backward(loss, shown);
    return absl::OkStatus();
  });
}

void Engine::TakeMean(at::Tensor gradients) {
  Group* const group = workload_->gradient_group();
  if (group == nullptr) return;
  CountCollective();
  group->Sum(gradients);
  gradients.div_(group->size());
}

at::Tensor Engine::BeforeUpdate(std::optional<double> max_norm) {
  at::Tensor skip;
  Make([&] {
    if (workload_->averages_gradients()) CountCollective();  // The word (comm/step_word.h).
    skip = run_->step().BeforeUpdate(max_norm);
    return absl::OkStatus();
  });
  return skip;
}

void Engine::Updated() { run_->Updated(); }

void Engine::EndStep() {
  Make([this] { return run_->EndStep(); });
}

c10::intrusive_ptr<c10d::ProcessGroup> Engine::TorchGroup() {
  TORCH_CHECK_VALUE(config().strategy.kind == StrategyConfig::Kind::kDdp,
                    "run.process_group needs `strategy: ddp`: with any other, ranks may be at "
                    "different steps");
  if (!run_->ok()) ThrowEnd();
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  Make([&] {
    group = run_->CallersGroup().torch_group();
    return absl::OkStatus();
  });
  return group;
}

void Engine::Save() {
  TORCH_CHECK_VALUE(!config().checkpoint.directory.empty(),
                    "run.save() needs `checkpoint: {directory: ...}` in the job's file");
  TORCH_CHECK_VALUE(config().strategy.kind != StrategyConfig::Kind::kSlipstream,
                    "run.save() does not go with strategy slipstream, whose ranks make no step "
                    "together; give checkpoint.every_steps or every_s in the job's file, or run "
                    "`paceline checkpoint save`");
  run_->AskForSave();
}

void Engine::ShowProgress(int64_t done, int64_t all) {
  Make([&] {
    run_->evaluation().ShowProgress(done, all);
    return absl::OkStatus();
  });
}

void Engine::EndEvaluation(const Score& score, int64_t samples) {
  if (config().member.shards > 1) ring_->RoundCollectivesUp();
  Make([&] {
    const bool counts = !workload_->repeats_samples();
    run_->evaluation().End(counts ? score : Score(), counts ? samples : 0);
    return absl::OkStatus();
  });
}

bool Engine::CutOff(const std::string& what, bool collective) {
  return run_->CutOff(what, collective);
}

void Engine::Fail(const std::string& what) { run_->Fail(absl::InternalError(what)); }

int Engine::Finish() {
  // Threads of the engine may outlive Python, which must not be called then.
  if (workload_ != nullptr) workload_->Close();
  // Python must not be traced while it ends.
  run_->GiveUpProfile("the script has ended");
  return run_->Finish();
}

// What a script's own code throws in between (a hook in its backward pass) goes on to the script.
void Engine::Make(const std::function<absl::Status()>& part) {
  const auto cut_off = [this](const std::string& what) {
    if (!CutOff(what, /*collective=*/true)) ThrowEnd();
    throw Regroup{what};
  };
  // The script may have swallowed what cut its step off.
  if (run_->is_cut_off()) throw Regroup{"the step is cut off"};
  absl::Status status;
  try {
    status = part();
  } catch (const CollectiveError& error) {
    cut_off(error.what());
  } catch (const c10::DistError& error) {
    cut_off(error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (!CutOff(error.what(), /*collective=*/false)) throw;
    throw Regroup{error.what()};
  }
  if (status.ok()) return;
  run_->Fail(status);
  ThrowEnd();
}

void Engine::ThrowEnd() { throw TrainingError{std::string(run_->status().message())}; }

}  // namespace paceline
