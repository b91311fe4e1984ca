// What a rank trains, and where its data comes from: the model, data and optimizer of a job file
// (built_in_workload.h), or those of somebody else's loop. Whoever has it makes the steps that
// TrainerRun orders.
#ifndef WORKER_TRAINER_LOOP_WORKLOAD_H_
#define WORKER_TRAINER_LOOP_WORKLOAD_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

class Group;
class Interpreter;
struct ShardGroups;

// The order in which a member takes `samples` samples. `mixture`: of them, or null.
inline Sampler::Options SamplerOptions(const TrainerConfig& config, const Member& member,
                                       int64_t samples,
                                       std::shared_ptr<const Mixture> mixture = nullptr) {
  Sampler::Options options;
  options.samples = samples;
  options.rank = member.rank;
  options.world_size = member.world_size;
  options.batch = member.batch;
  options.shuffle = config.data.shuffle;
  options.seed = config.seed;
  options.drop_last = config.data.drop_last;
  options.mixture = std::move(mixture);
  return options;
}

// Thread-compatible. Torch's exceptions pass through.
class Workload {
 public:
  virtual ~Workload() = default;

  virtual ModelTensors& model() = 0;
  virtual Optimizer& optimizer() = 0;
  // Further state. If there is some, it contains the optimizer's. Null: none.
  virtual Attachments* attachments() { return nullptr; }
  // Of the code that makes the steps, for profiles. Null: that is compiled.
  virtual Interpreter* interpreter() { return nullptr; }
  // Whether a step may leave out some of the parameters.
  virtual bool unused_parameters() const = 0;

  // InvalidArgument when Slipstream cannot train this. Says why, for people.
  virtual absl::Status CheckSlipstream() = 0;

  // Of the job's step `step`; of a step that is made now, if the workload's owner decides. With
  // Slipstream, any thread.
  virtual double LearningRate(int64_t step) const = 0;

  // How a member takes the samples of the training data, which its positions count. `samples` 0:
  // nobody knows, whatever the rest says.
  virtual Sampler::Options SamplingAs(const Member& member) const = 0;
  // Whether there is something to evaluate.
  virtual bool evaluates() const = 0;
  // Of its reads of objects of stores. Unset: it reads none.
  virtual std::optional<ObjectFigures> objects() const { return std::nullopt; }

  // Reads of data that wait for a store, and later ones, end with Cancelled while `condition`
  // holds. It is called on any thread.
  virtual void SetReadInterrupt(std::function<bool()> /*condition*/) {}

  // Takes batches of this member from `position` on. Does nothing if that is already so.
  virtual void OpenData(const Member& member, const DataPosition& position) = 0;
  // The position behind the batches taken. Requires: OpenData.
  virtual DataPosition position() const = 0;
  // How many ranks have samples in the pass whose batch was taken last, where this one takes data
  // as `member`: ranks 0, 1, ... of its generation.
  virtual int ActiveRanks(const Member& member) const { return member.world_size; }
  // The generation ends, in which data may have been opened, and a step cut off: no batch is taken
  // before OpenData.
  virtual void CloseData() = 0;

  // Whether the backward passes themselves make gradients the mean over ranks, those of the group
  // that SetGradientGroup has told last. Null: this rank's stay its own. The group lives until the
  // next call, or CloseData.
  virtual bool averages_gradients() const { return false; }
  virtual void SetGradientGroup(Group* /*group*/) {}

  // Of a job with shards: the sizes of the dimensions by which the positions of a replica are
  // arranged, row by row; altogether as many as there are shards. Empty: there is one. Constant.
  virtual std::vector<int> mesh() const { return {}; }
  // For jobs with shards; called between steps, before the ranks meet. The groups of the generation
  // that begins (comm/plan_builder.h), which live until the call with null. Returns false if the
  // rank has another position than before: parameters have the sizes of that position then, and no
  // meaning yet.
  virtual bool SetShardGroups(const ShardGroups* /*groups*/) { return true; }
  // For jobs with shards: the step under way was cut off between LocalStep's BeforeUpdate and the
  // optimizer. Makes the optimizer's step with the gradients that are there, which are clipped, and
  // drops them; all else is then as after the step. `skip`: as BeforeUpdate returns it.
  virtual absl::Status FinishUpdate(const at::Tensor& /*skip*/) {
    return absl::UnimplementedError("the model cannot be trained with shards");
  }

  // What an export of the weights writes. With shards: collective over the ranks of a replica; null
  // where another one of them writes the whole model. Valid until the next step.
  virtual std::shared_ptr<const ModelTensors> ModelToExport() {
    return std::shared_ptr<const ModelTensors>(std::shared_ptr<void>(), &model());
  }

  // Makes one forward and backward pass without consequences, on the first batch from `position`
  // on, as this member. Returns the order in which gradients become ready. Does nothing where
  // something is attached: then the order is saved.
  virtual absl::StatusOr<std::vector<int64_t>> TrainDry(const Member& member,
                                                        const DataPosition& position) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_WORKLOAD_H_
