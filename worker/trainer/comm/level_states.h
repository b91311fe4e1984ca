// What the levels of a plan keep from one mean to the next: vectors that the members of a group
// have in common, rounding errors of quantised means, momenta of outer steps.
//
// The members of a group have a vector in common from when they were last equal: it is the
// reference of a quantised mean and the point of the outer step.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_COMM_LEVEL_STATES_H_
#define WORKER_TRAINER_COMM_LEVEL_STATES_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/outer_step.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/comm/quantized_mean.h"
#include "worker/trainer/core/rendezvous.h"
#include "worker/trainer/core/stream_rendezvous.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// How far a streamed level is with its averages (comm/streamed_average.h).
struct StreamMemory {
  StreamPosition position;
  // What this rank has given to the average that it waits for, and its riders; float. In fp32 the
  // fragment's values, divided by the number of ranks, else their change since the point.
  // Undefined: it waits for none.
  at::Tensor sent;
};

// The state of a level that sends a shorter format than fp32 or makes outer steps; undefined
// tensors for others.
struct LevelMemory {
  at::Tensor reference;  // What all members have in common.
  int64_t reference_number = 0;
  QuantizedMean::Residuals residuals;
  // The residuals before an exchange that was cut off, or a streamed average that is under way.
  std::optional<QuantizedMean::Residuals> before;
  at::Tensor momentum;  // Of the outer step.
  StreamMemory stream;

  // Those with which that exchange is repeated; without one, those of the next.
  const QuantizedMean::Residuals& residuals_to_send() const {
    return before.has_value() ? *before : residuals;
  }
};

class LevelStates {
 public:
  // `groups` and `averager` must outlive this.
  LevelStates(Groups& groups, ModelAverager& averager) : groups_(groups), averager_(averager) {}

  // Begins with the levels of `plan`, which must stay in use until the next call. All ranks are
  // equal, or the vectors are set later. The momentum of the last level is kept if that of this
  // plan makes outer steps too; that of others begins with zero.
  void Begin(const BuiltPlan& plan);

  // Whether any level has a vector in common.
  bool any() const;
  // Null for a level that sends fp32, or makes no outer step. A streamed level rounds by itself.
  QuantizedMean* quantized(size_t level) const { return levels_[level].quantized.get(); }
  OuterStep* outer(size_t level) const { return levels_[level].outer.get(); }
  // That of the last level, whose momentum is equal on all ranks; null without.
  OuterStep* last_outer() const;

  // The ranks in `equal` have the same parameters now: sets the vectors of the levels whose members
  // are all among them, except for level `but`.
  void SetReferences(const RankRange& equal, std::optional<int> but);

  // Continues where other objects of the same groups were.
  void Resume(const std::vector<LevelMemory>& memory);
  // The same after the groups have changed: takes the momentum of the last level alone.
  void ResumeMomentum(const std::vector<LevelMemory>& memory);
  std::vector<LevelMemory> Memory() const;

  // This rank's own tensors, by name: rounding errors, and momenta of levels below the last.
  std::vector<NamedTensor> Own() const;
  // The momentum of the last level's outer step, cut as `parameters` are, under their names.
  std::vector<NamedTensor> Momentum(const std::vector<NamedTensor>& parameters) const;

 private:
  struct Level {
    const Group* group = nullptr;
    std::unique_ptr<QuantizedMean> quantized;
    std::unique_ptr<OuterStep> outer;
  };

  Groups& groups_;
  ModelAverager& averager_;
  std::vector<Level> levels_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_LEVEL_STATES_H_
