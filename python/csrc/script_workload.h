// A user's script as the engine's workload: its model, its optimizer, its data and what else it has
// attached. The script makes the steps.
#ifndef PYTHON_CSRC_SCRIPT_WORKLOAD_H_
#define PYTHON_CSRC_SCRIPT_WORKLOAD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/core/slice.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/telemetry/profiler.h"

namespace paceline {

// Of parameters or buffers, by name.
using NamedSlices = std::vector<std::pair<std::string, Slice>>;

// The tensors of a user's modules. They keep their storage as long as this lives.
class ModuleTensors : public ModelTensors {
 public:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  // A tensor that is listed again is tied to the first. Throws c10::ValueError unless all are on
  // `device`, and parameters are leaves that require gradients.
  ModuleTensors(at::Device device, const Named& parameters, const Named& buffers);

  // Throws c10::ValueError, naming it, when a tensor has another storage or size than at first.
  void CheckStorage() const;

  // Of a sharded model: says which slices these are now. Sizes may have changed.
  void SetSlices(NamedSlices slices);

 private:
  struct Storage {
    const void* data;
    std::vector<int64_t> sizes;
  };
  void NoteStorage();

  std::vector<Storage> storages_;  // Of parameters, then buffers.
};

// The script's optimizer and schedulers in the engine's hands: with Slipstream, whose steps of the
// job are not those of a rank, and some of whose updates are made aside of the script's steps. A
// failure of the script's is a c10::ValueError.
class Shadow {
 public:
  virtual ~Shadow() = default;

  // Steps the schedulers until they are where the job's step `step` needs them; never back. Returns
  // the learning rate, of the first group of parameters.
  virtual double Schedule(int64_t step) = 0;
  // As Optimizer::Update, with the learning rates that Schedule has left.
  virtual void Update(const std::vector<at::Tensor>& parameters,
                      const std::vector<at::Tensor>& gradients) = 0;
  // The optimizer's, made if there is none yet: as Optimizer's. Requires: they have a mean.
  virtual std::vector<at::Tensor> State() = 0;
  virtual std::vector<at::Tensor> StepCounts() = 0;
  virtual void Reset() = 0;
  // The script ends: waits for a call under way. Later ones throw.
  virtual void Close() = 0;
};

// A sharded model of the script's: its parameters and gradients, as the engine has them, are this
// rank's slices. A failure of the script's is a c10::ValueError.
class ShardedModel {
 public:
  virtual ~ShardedModel() = default;

  using ProcessGroups = std::vector<c10::intrusive_ptr<c10d::ProcessGroup>>;
  // A generation begins. `groups`: the ranks that hold the model together, in which this rank's
  // number is its position; then, for each dimension of Workload::mesh, those that differ in it
  // alone, where a group of one is null. Returns false if this rank has had another position: then
  // the parameters have other sizes now, and no meaning yet.
  virtual bool Join(const ProcessGroups& groups) = 0;
  // Those of this rank's position; empty where each rank has the whole model.
  virtual NamedSlices Slices() = 0;
  // The generation is over: the model is as before a step that was cut off, but for gradients that
  // are whole.
  virtual void Leave() = 0;
  // As Workload::FinishUpdate.
  virtual void FinishUpdate(bool skip) = 0;
};

// The script's own optimizer, which the engine calls by its shadow alone. Its state is attached.
class ScriptOptimizer : public Optimizer {
 public:
  // `shadow`: outlives this; null: it is never called. `no_mean`: why the mean of several ranks'
  // state is not a state; empty: it is.
  ScriptOptimizer(std::vector<at::Tensor> parameters, Shadow* shadow, std::string no_mean)
      : Optimizer(std::move(parameters)), shadow_(shadow), no_mean_(std::move(no_mean)) {}

  // What has the parameters' shapes in its state, once there is some: it can be averaged.
  void SetSlots(std::vector<OptimizerSlot> slots) { slots_ = std::move(slots); }

  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& learning_rate, const at::Tensor& skip) override;
  std::vector<OptimizerSlot> Slots() const override { return slots_; }
  std::vector<at::Tensor> StepCounts() const override;
  std::vector<at::Tensor> State() const override;
  void Reset() override;
  absl::Status CheckMean() const override;

 private:
  Shadow* const shadow_;
  const std::string no_mean_;
  std::vector<OptimizerSlot> slots_;
};

// Thread-compatible, but for what Workload and Optimizer say of Slipstream.
class ScriptWorkload : public Workload {
 public:
  struct Parts {
    std::unique_ptr<ModuleTensors> model;
    std::unique_ptr<Attachments> attachments;
    // Where the job may train with Slipstream; else null: the script's schedulers are its own.
    std::unique_ptr<Shadow> shadow;
    std::unique_ptr<ShardedModel> sharded;  // Null: each rank has the whole model, unsharded.
    // As Workload::mesh. Ranks that differ in the first dimension have other samples.
    std::vector<int> mesh;
    std::unique_ptr<Interpreter> interpreter;
    std::string no_slipstream;  // Why Slipstream cannot train this; empty: it can train the script.
    std::string no_mean;        // As for ScriptOptimizer.
    bool unused_parameters = false;
    // Of its loader; no samples: it has another kind of loader. With batch 0, that is the member's.
    Sampler::Options sampling;
    bool evaluates = false;
  };

  explicit ScriptWorkload(Parts parts);

  // The script ends: the engine's threads call nothing of it from now on.
  void Close();

  // The learning rate of the step that begins next, where the script decides.
  void SetLearningRate(double rate) { next_rate_ = rate; }
  // The position behind the batches that the step has taken so far.
  void SetPosition(const DataPosition& position) { position_ = position; }
  // Where this member takes its next batches from, if it has begun anew: `openings` has grown then.
  const Member& data_as() const { return data_as_; }
  // Whether other ranks have the same samples, and one of them counts these.
  bool repeats_samples() const { return data_as_.rank % ranks_per_batch_ != 0; }
  int64_t openings() const { return openings_; }
  void SetEvaluates(bool evaluates) { parts_.evaluates = evaluates; }

  const ModuleTensors& tensors() const { return *parts_.model; }
  // As told by SetGradientGroup.
  Group* gradient_group() const { return gradient_group_; }

  ModuleTensors& model() override { return *parts_.model; }
  ScriptOptimizer& optimizer() override { return optimizer_; }
  Attachments* attachments() override { return parts_.attachments.get(); }
  Interpreter* interpreter() override { return parts_.interpreter.get(); }
  bool unused_parameters() const override { return parts_.unused_parameters; }
  absl::Status CheckSlipstream() override;
  double LearningRate(int64_t step) const override;
  Sampler::Options SamplingAs(const Member& member) const override;
  bool evaluates() const override { return parts_.evaluates; }
  void OpenData(const Member& member, const DataPosition& position) override;
  DataPosition position() const override { return position_; }
  void CloseData() override;
  std::vector<int> mesh() const override { return parts_.mesh; }
  bool averages_gradients() const override { return parts_.sharded != nullptr; }
  void SetGradientGroup(Group* group) override { gradient_group_ = group; }
  bool SetShardGroups(const ShardGroups* groups) override;
  absl::Status FinishUpdate(const at::Tensor& skip) override;
  absl::StatusOr<std::vector<int64_t>> TrainDry(const Member& member,
                                                const DataPosition& position) override;

 private:
  Parts parts_;
  const int ranks_per_batch_;
  ScriptOptimizer optimizer_;
  double next_rate_ = 0;
  mutable int64_t rate_step_ = -1;  // The newest step that was asked for,
  mutable double rate_ = 0;         // and its learning rate.

  Group* gradient_group_ = nullptr;

  bool is_open_ = false;
  Member data_as_;
  int64_t openings_ = 0;
  DataPosition position_;
};

}  // namespace paceline

#endif  // PYTHON_CSRC_SCRIPT_WORKLOAD_H_
