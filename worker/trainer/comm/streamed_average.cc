#include "worker/trainer/comm/streamed_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <utility>

#include "worker/trainer/comm/step_riders.h"

namespace paceline {

StreamedAverage::StreamedAverage(const Parts& parts, StreamSchedule schedule, double alpha,
                                 int64_t first_step)
    : parts_(parts),
      schedule_(std::move(schedule)),
      alpha_(alpha),
      fragments_(CutIntoFragments(parts.averager.sizes(), schedule_.fragments)) {
  position_.latest = first_step - 1;
}

void StreamedAverage::Resume(const StreamMemory& memory) {
  position_ = memory.position;
  sent_ = memory.sent;
}

void StreamedAverage::SendAgain() {
  if (!position_.is_waiting() || sum_.defined()) return;
  // What it was ready for is another generation's.
  SetUnready(sent_.narrow(0, current().values, kStepRiders));
  Send();
}

bool StreamedAverage::IsToBegin(int64_t step) const {
  return step > position_.latest && schedule_.BeginsAfter(step);
}

int64_t StreamedAverage::Begin(int64_t step, const at::Tensor& riders) {
  const at::NoGradGuard no_grad;
  position_.latest = position_.begun = step;
  const Fragment& fragment = current();
  const at::Tensor values = parts_.averager.Part(fragment.first, fragment.end);
  sent_ = at::cat({values.div_(parts_.group.size()), riders});
  Send();
  return AllReduceBytes(static_cast<int64_t>(sent_.nbytes()), parts_.group.size());
}

void StreamedAverage::Send() {
  sum_ = sent_.clone();
  wait_ = parts_.group.BeginSum(sum_);
}

bool StreamedAverage::IsDue(int64_t step) const {
  return position_.begun >= 0 && position_.begun + schedule_.delay <= step;
}

at::Tensor StreamedAverage::TakeUp() {
  const at::NoGradGuard no_grad;
  const Fragment& fragment = current();
  at::Tensor riders;
  if (position_.is_waiting()) {
    wait_();
    parts_.outer.StepPart(fragment.offset, sum_.narrow(0, 0, fragment.values));
    riders = sum_.narrow(0, fragment.values, kStepRiders);
    position_.taken = position_.begun;
  }
  Merge(fragment);
  Forget();
  return riders;
}

void StreamedAverage::Merge(const Fragment& fragment) const {
  at::Tensor values = parts_.outer.point().narrow(0, fragment.offset, fragment.values);
  if (alpha_ > 0) {
    const at::Tensor point = values;
    values = parts_.averager.Part(fragment.first, fragment.end);
    values.sub_(point).mul_(alpha_).add_(point);
  }
  parts_.averager.SetPart(fragment.first, fragment.end, values);
}

void StreamedAverage::Drop() {
  if (wait_) wait_();
  Forget();
}

void StreamedAverage::Forget() {
  position_.begun = -1;
  sent_ = at::Tensor();
  sum_ = at::Tensor();
  wait_ = nullptr;
}

}  // namespace paceline
