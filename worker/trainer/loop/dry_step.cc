#include "worker/trainer/loop/dry_step.h"

#include <algorithm>

#include "common/core/status_macros.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/loop/step_undo.h"

namespace paceline {

BatchLoader::Options LoaderOptions(const TrainerConfig& config, const Member& member,
                                   const Dataset& data, const DataPosition& start,
                                   c10::Device device) {
  BatchLoader::Options options;
  options.start = start;
  options.sampler.samples = data.size();
  options.sampler.rank = member.rank;
  options.sampler.world_size = member.world_size;
  options.sampler.batch = member.batch;
  options.sampler.shuffle = config.data.shuffle;
  options.sampler.seed = config.seed;
  options.threads = config.data.prefetch_threads;
  options.batches_ahead = config.data.prefetch_batches;
  options.device = device;
  return options;
}

absl::StatusOr<std::vector<int64_t>> TrainDry(const TrainerConfig& config, const Dataset& data,
                                              Model& model, const DataPosition& position) {
  Member member = config.member;
  member.rank = std::max(member.rank, 0);
  BatchLoader::Options options = LoaderOptions(config, member, data, position, model.device());
  options.threads = 0;
  BatchLoader loader(data, options);
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader.Next());
  StepUndo undo(model);
  undo.Keep();
  GradientOrder order(model.parameters());
  {
    const Autocast autocast(config.bf16, model.device().type());
    model.Loss(batch).backward();
  }
  undo.Undo();
  return order.Completed(order.Take());
}

}  // namespace paceline
