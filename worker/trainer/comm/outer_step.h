// The outer step of a ladder's level (core/outer_rule.h) over all parameters as one vector, with
// its point and its momentum.
//
//   Step        gives the point after the step, from the members' mean
//   Accept      makes its momentum that of the level
//   SetPoint    whenever the members have become equal, by this level or otherwise
//
// Products and sums round apart and in the same order for each value, so that members whose point,
// momentum and mean are equal get equal results, whatever their threads and devices.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_COMM_OUTER_STEP_H_
#define WORKER_TRAINER_COMM_OUTER_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/trainer/core/outer_rule.h"

namespace paceline {

class OuterStep {
 public:
  // `point`: float [parameters], equal on all members, copied. The momentum begins with zero.
  OuterStep(const OuterRule& rule, const at::Tensor& point);

  // Sets the vector that all members have in common from now on.
  void SetPoint(const at::Tensor& point);

  const at::Tensor& point() const { return point_; }
  // Counts the points: members with equal numbers have the same one.
  int64_t point_number() const { return point_number_; }
  // Continues where another object of the same group was.
  void Resume(const at::Tensor& point, int64_t number);

  // Float [parameters], equal on all members. A step replaces the tensor.
  const at::Tensor& momentum() const { return momentum_; }
  void SetMomentum(const at::Tensor& momentum);

  // Replaces `mean`, contiguous and of the point's shape, by the point after the step. Changes
  // neither point nor momentum.
  void Step(const at::Tensor& mean);
  // Makes the momentum of the latest Step this object's.
  void Accept();
  // The same for the values from `first` on alone, of which `mean` is; sets their point and
  // momentum at once. The point's number stays.
  void StepPart(int64_t first, const at::Tensor& mean);
  // The momentum after the latest Step, accepted or not; undefined before.
  const at::Tensor& latest_momentum() const { return latest_momentum_; }

 private:
  // Replaces `mean`, of the values from `first` on, by their point after the step, and sets
  // `momentum`, of as many values, to theirs.
  void StepValues(int64_t first, const at::Tensor& mean, const at::Tensor& momentum) const;

  const OuterFactors factors_;
  at::Tensor point_;
  int64_t point_number_ = 1;
  at::Tensor momentum_;
  at::Tensor latest_momentum_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_OUTER_STEP_H_
