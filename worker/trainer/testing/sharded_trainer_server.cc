// sharded_trainer_server: starts trainers of a model in shards on the CPU (serve_trainers.h): of
// the job's MLP each rank of a replica holds some rows of each weight and bias, and gathers them in
// the forward pass.
//
// `--faults STEP:TRAINER:PLACE,...` of a trainer: in this step, before which so many are done, the
// trainer of this number (the rank at its start) kills itself
//   gather   in the forward pass, when some rows are gathered;
//   scatter  in the backward pass, when some gradients are summed over the replica;
//   mean     in the mean of the gradients over the replicas;
//   word     before it gives its word;
//   heard    when it has the word of all;
//   updated  when its optimizer's step is made, before the engine knows;
// or, with `deaf`, acts once as if it had not got the word of all.
//
// With `--built-in` a trainer trains the job's own model, as the production program does. Places
// are those at which a phase of the step is entered, by its name and how often it was before
// (step_ring.h): `communication1` before the parameters are gathered, `backward1`, `communication2`
// when the gradients are divided and averaged, `communication3` before the word, `optimizer2` when
// all have given theirs; or `ended1`, when the update is made.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/lanes.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/open_dataset.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/trainer_run.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/model/classifier.h"
#include "worker/trainer/telemetry/step_timer.h"
#include "worker/trainer/testing/serve_trainers.h"
#include "worker/trainer/trainer_main.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Those of one trainer.
class Faults {
 public:
  Faults(const std::string& text, int trainer) {
    const std::vector<std::string> faults = absl::StrSplit(text, ',', absl::SkipEmpty());
    for (const std::string& fault : faults) {
      const std::vector<std::string> parts = absl::StrSplit(fault, ':');
      PACELINE_CHECK(parts.size() == 3);
      if (parts[1] == absl::StrCat(trainer)) at_.insert(absl::StrCat(parts[0], ":", parts[2]));
    }
  }

  void BeginStep(int64_t step) {
    step_ = step;
    visits_.clear();
  }
  bool Has(const std::string& place) const {
    return at_.count(absl::StrCat(step_, ":", place)) > 0;
  }
  // The same, once.
  bool Take(const std::string& place) { return at_.erase(absl::StrCat(step_, ":", place)) > 0; }
  // At the `visit`-th call of a step.
  void At(const std::string& place, int visit = 1) {
    if (++visits_[place] == visit && Has(place)) std::raise(SIGKILL);
  }

 private:
  std::set<std::string> at_;  // "step:place".
  int64_t step_ = -1;
  std::map<std::string, int> visits_;
};

struct Replica {
  Group* group = nullptr;
  int64_t position = 0;  // Of this rank in it.
  Faults* faults = nullptr;
};

// Rows of this rank [n, ...] to those of the replica [shards n, ...].
class GatherRows : public torch::autograd::Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, Replica* replica) {
    replica->faults->At("gather", /*visit=*/3);
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes[0] *= replica->group->size();
    const at::Tensor all = at::empty(sizes, rows.options());
    // Without its history: Gloo's thread may be the last to hold what it has gathered.
    replica->group->Gather(all.tensor_data().view({-1}), rows.detach().contiguous().view({-1}));
    // An IValue cannot hold a pointer, so it holds the address.
    context->saved_data["replica"] = reinterpret_cast<int64_t>(replica);
    return all;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* replica = reinterpret_cast<const Replica*>(context->saved_data["replica"].toInt());
    replica->faults->At("scatter", /*visit=*/3);
    if (replica->faults->Has("mean")) {  // When all gradients are computed.
      torch::autograd::Engine::get_default_engine().queue_callback(
          [faults = replica->faults] { faults->At("mean"); });
    }
    const at::Tensor sum = gradients[0].contiguous().clone();
    replica->group->Sum(sum);
    const int64_t rows = sum.size(0) / replica->group->size();
    const at::Tensor own = sum.narrow(0, replica->position * rows, rows);
    return {own.div(replica->group->size()), at::Tensor()};
  }
};

class ShardedMlp : public Classifier {
 public:
  ShardedMlp(const ImageFormat& format, const std::vector<int64_t>& hidden, const Lanes& lanes,
             int rank)
      : Classifier(at::kCPU) {
    const int64_t position = lanes.PositionOf(std::max(rank, 0));  // A spare takes another one's.
    const auto rows_of = [&](const std::string& name, const at::Tensor& whole) {
      PACELINE_CHECK(whole.size(0) % lanes.shards == 0);
      const int64_t rows = whole.size(0) / lanes.shards;
      return AddParameter(name, whole.narrow(0, position * rows, rows).clone());
    };
    auto width = static_cast<int64_t>(format.image_bytes());
    for (size_t i = 0; i <= hidden.size(); ++i) {
      const int64_t out = i < hidden.size() ? hidden[i] : static_cast<int64_t>(format.classes);
      const std::string name = absl::StrCat("layers.", i);
      layers_.push_back({rows_of(name + ".weight", Initial(width, out).view({out, width})),
                         rows_of(name + ".bias", Initial(1, out))});
      width = out;
    }
  }

  void SetReplica(const Replica& replica) { replica_ = replica; }

  at::Tensor Forward(const at::Tensor& images) override {
    at::Tensor x = images.flatten(1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i > 0) x = at::relu(x);
      const at::Tensor weight = GatherRows::apply(layers_[i].weight, &replica_);
      x = at::linear(x, weight, GatherRows::apply(layers_[i].bias, &replica_));
    }
    return x;
  }

 private:
  // The same on all ranks: as if drawn from [-1, 1] / sqrt(in).
  static at::Tensor Initial(int64_t in, int64_t out) {
    return at::arange(in * out, at::kFloat).mul(1.7).sin().div(std::sqrt(static_cast<double>(in)));
  }

  std::vector<Linear> layers_;  // This rank's rows.
  Replica replica_;
};

class ShardedWorkload : public Workload {
 public:
  ShardedWorkload(const TrainerConfig& config, const std::string& faults)
      : config_(config),
        faults_(faults, config.id.rank.value()),
        position_(config.member.lanes().PositionOf(std::max(config.member.rank, 0))) {}

  absl::Status Open() {
    PACELINE_ASSIGN_OR_RETURN(data_, OpenDataset("data.train", config_.data.train, config_.data));
    model_ = std::make_unique<ShardedMlp>(*data_->format().image, config_.model.hidden,
                                          config_.member.lanes(), config_.member.rank);
    optimizer_ = MakeOptimizer(config_.optimizer, TensorsOf(model_->parameters()));
    learning_rate_ = MakeLearningRate(at::kCPU);
    return absl::OkStatus();
  }

  absl::Status MakeStep(const StepOrder& order, LocalStep& step) {
    faults_.BeginStep(order.number);
    learning_rate_.fill_(order.learning_rate);
    for (int64_t pass = 0; pass < data_as_.accumulation_steps; ++pass) {
      step.BeginPass();
      PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_->Next());
      step.BeginForward({batch.samples, batch.tokens, batch.workload});
      step.Backward(model_->Loss(batch));
    }
    faults_.At("word");
    const at::Tensor skip = step.BeforeUpdate();
    faults_.At("heard");
    if (faults_.Take("deaf")) throw CollectiveError("word", "a fault");
    optimizer_->Step(learning_rate_, skip);
    faults_.At("updated");
    return absl::OkStatus();
  }

  ModelTensors& model() override { return *model_; }
  Optimizer& optimizer() override { return *optimizer_; }
  bool unused_parameters() const override { return false; }
  absl::Status CheckSlipstream() override { return absl::UnimplementedError("it has shards"); }
  double LearningRate(int64_t step) const override {
    return paceline::LearningRate(config_.schedule, step);
  }
  Sampler::Options SamplingAs(const Member& member) const override {
    return SamplerOptions(config_, member, data_->size());
  }
  bool evaluates() const override { return false; }
  void OpenData(const Member& member, const DataPosition& position) override {
    if (loader_ != nullptr && data_as_ == member) return;
    data_as_ = member;
    BatchLoader::Options options;
    options.start = position;
    options.sampler = SamplingAs(member);
    options.threads = 0;
    loader_ = std::make_unique<BatchLoader>(*data_, options);
  }
  DataPosition position() const override { return loader_->position(); }
  void CloseData() override { loader_.reset(); }

  bool SetShardGroups(const ShardGroups* groups) override {
    Replica replica;
    if (groups == nullptr) {
      model_->SetReplica(replica);
      return true;
    }
    replica.group = groups->replica.get();
    replica.faults = &faults_;
    // This rank is the one that is in both groups.
    const std::vector<int>& members = replica.group->ranks();
    for (const int rank : groups->lane->ranks()) {
      const auto found = std::find(members.begin(), members.end(), rank);
      if (found != members.end()) replica.position = found - members.begin();
    }
    model_->SetReplica(replica);
    return std::exchange(position_, replica.position) == replica.position;
  }
  absl::Status FinishUpdate(const at::Tensor& skip) override {
    optimizer_->Step(learning_rate_, skip);
    return absl::OkStatus();
  }
  // There are no other ranks to gather from.
  absl::StatusOr<std::vector<int64_t>> TrainDry(const Member& /*member*/,
                                                const DataPosition& /*position*/) override {
    return std::vector<int64_t>();
  }

 private:
  const TrainerConfig& config_;
  Faults faults_;
  int64_t position_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<ShardedMlp> model_;
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor learning_rate_;
  Member data_as_;
  std::unique_ptr<BatchLoader> loader_;
};

// Destroys nothing.
int TrainSharded(Control& control, StepRingWriter& ring, Platform& platform,
                 const std::string& directory, const std::string& faults) {
  TrainerRun& run = *new TrainerRun(control, ring, platform, directory);
  run.Open();
  if (!run.ok()) return run.Finish();
  ShardedWorkload& workload = *new ShardedWorkload(run.config(), faults);
  run.Do([&] {
    at::set_num_threads(run.config().threads);
    at::set_num_interop_threads(1);
    return workload.Open();
  });
  run.Load(workload);
  for (StepOrder order = run.Next(); order.kind != StepOrder::Kind::kDone; order = run.Next()) {
    run.Do([&]() -> absl::Status {
      PACELINE_RETURN_IF_ERROR(workload.MakeStep(order, run.step()));
      run.Updated();
      return run.EndStep();
    });
  }
  return run.Finish();
}

// Kills the process when a phase begins.
class FaultTimer : public StepTimer {
 public:
  FaultTimer(std::unique_ptr<StepTimer> timer, Faults faults)
      : timer_(std::move(timer)), faults_(std::move(faults)) {}

  void ShowEvaluation(int64_t steps, int64_t done, int64_t all) override {
    timer_->ShowEvaluation(steps, done, all);
  }
  void EndStep(const StepResult& result) override {
    faults_.At("ended1");
    timer_->EndStep(result);
  }
  std::vector<StepRecord> TakeFinished() override { return timer_->TakeFinished(); }
  void Flush() override { timer_->Flush(); }

 private:
  void DoEnter(Phase phase, int64_t step) override {
    if (std::exchange(step_, step) != step) {
      entered_.clear();
      faults_.BeginStep(step);
    }
    faults_.At(absl::StrCat(PhaseName(phase), ++entered_[phase]));
    timer_->Enter(phase, step);
  }

  const std::unique_ptr<StepTimer> timer_;
  Faults faults_;
  int64_t step_ = -1;
  std::map<Phase, int> entered_;
};

class FaultPlatform : public CpuPlatform {
 public:
  explicit FaultPlatform(std::string faults) : faults_(std::move(faults)) {}

  absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) override {
    trainer_ = config.id.rank.value();
    return CpuPlatform::OpenDevice(config);
  }
  std::unique_ptr<StepTimer> MakeStepTimer(StepRingWriter& ring) override {
    return std::make_unique<FaultTimer>(CpuPlatform::MakeStepTimer(ring),
                                        Faults(faults_, trainer_));
  }

 private:
  const std::string faults_;
  int trainer_ = 0;
};

int RunTrainerWithFaults(int argc, char** argv) {
  std::string faults;
  bool built_in = false;
  std::vector<char*> others;
  for (int i = 0; i < argc; ++i) {
    if (std::string(argv[i]) == "--faults" && i + 1 < argc) {
      faults = argv[++i];
    } else if (std::string(argv[i]) == "--built-in") {
      built_in = true;
    } else {
      others.push_back(argv[i]);
    }
  }
  others.push_back(nullptr);
  const int count = static_cast<int>(others.size()) - 1;
  if (built_in) {
    FaultPlatform platform(faults);
    return TrainerMain(count, others.data(), platform);
  }
  CpuPlatform platform;
  return TrainerMain(count, others.data(), platform,
                     [&faults](Control& control, StepRingWriter& ring, Platform& trains_on,
                               const std::string& directory) {
                       return TrainSharded(control, ring, trains_on, directory, faults);
                     });
}

}  // namespace
}  // namespace paceline

int main() { return paceline::ServeTrainers(paceline::RunTrainerWithFaults); }
