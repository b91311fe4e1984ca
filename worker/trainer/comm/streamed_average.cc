#include "worker/trainer/comm/streamed_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

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
  if (!parts_.format.has_value()) return;
  int64_t own = 0;
  int64_t mean = 0;
  for (const Fragment& fragment : fragments_) {
    const MeanMessages messages(parts_.codec, *parts_.format, parts_.group.size(), fragment.values);
    roundings_.push_back({messages, own, mean});
    own += messages.all_values();
    mean += messages.part_values();
  }
  const auto options = parts_.outer.point().options();
  residuals_ = {at::zeros({own}, options), at::zeros({mean}, options)};
}

QuantizedMean::Residuals StreamedAverage::Rounding::Of(const QuantizedMean::Residuals& all) const {
  return {all.own.narrow(0, first_own, messages.all_values()),
          all.mean.narrow(0, first_mean, messages.part_values())};
}

void StreamedAverage::Resume(const LevelMemory& memory) {
  position_ = memory.stream.position;
  sent_ = memory.stream.sent;
  if (!rounds()) return;
  const QuantizedMean::Residuals& residuals = memory.residuals_to_send();
  if (residuals.own.defined()) residuals_.own.copy_(residuals.own);
  if (residuals.mean.defined()) residuals_.mean.copy_(residuals.mean);
}

void StreamedAverage::SendAgain() {
  if (!position_.is_waiting() || wait_ != nullptr) return;
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
  at::Tensor values = parts_.averager.Part(fragment.first, fragment.end);
  if (rounds()) {
    values.sub_(parts_.outer.point().narrow(0, fragment.offset, fragment.values));
  } else {
    values.div_(parts_.group.size());
  }
  sent_ = at::cat({values, riders});
  Send();
  if (rounds()) return rounding().messages.BytesSent(kStepRiders);
  return AllReduceBytes(static_cast<int64_t>(sent_.nbytes()), parts_.group.size());
}

void StreamedAverage::Send() {
  const at::NoGradGuard no_grad;
  if (!rounds()) {
    received_ = sent_.clone();
    wait_ = parts_.group.BeginSum(received_);
    return;
  }
  const MeanMessages& messages = rounding().messages;
  const int64_t values = current().values;
  const at::Tensor change = at::zeros({messages.all_values()}, sent_.options());
  change.narrow(0, 0, values).copy_(sent_.narrow(0, 0, values));
  after_ = {rounding().Of(residuals_).own.clone(), at::Tensor()};
  const MeanMessages::Message message = messages.EncodeChange(change, after_.own);
  received_ = message.received;
  wait_ = parts_.group.BeginExchangeParts(message.received, message.sent);
}

bool StreamedAverage::IsToTurn(int64_t step) const {
  return rounds() && position_.is_waiting() && !after_.mean.defined() &&
         position_.begun + schedule_.turn() <= step;
}

void StreamedAverage::Turn() {
  const at::NoGradGuard no_grad;
  wait_();
  const at::Tensor error = rounding().Of(residuals_).mean.clone();
  const MeanMessages::Message message = rounding().messages.EncodeMean(
      received_, error, sent_.narrow(0, current().values, kStepRiders));
  after_.mean = error;
  received_ = message.received;
  wait_ = parts_.group.BeginGather(message.received, message.sent);
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
    const Received received = Receive();
    parts_.outer.StepPart(fragment.offset, received.mean);
    riders = received.riders;
    if (rounds()) {
      const QuantizedMean::Residuals residuals = rounding().Of(residuals_);
      residuals.own.copy_(after_.own);
      residuals.mean.copy_(after_.mean);
    }
    position_.taken = position_.begun;
  }
  Merge(fragment);
  Forget();
  return riders;
}

StreamedAverage::Received StreamedAverage::Receive() const {
  const Fragment& fragment = current();
  if (!rounds()) {
    return {received_.narrow(0, 0, fragment.values),
            received_.narrow(0, fragment.values, kStepRiders)};
  }
  const MeanMessages& messages = rounding().messages;
  const at::Tensor change = at::empty({messages.all_values()}, sent_.options());
  const at::Tensor riders = at::empty({kStepRiders}, sent_.options());
  messages.Decode(received_, change, riders);
  const at::Tensor point = parts_.outer.point().narrow(0, fragment.offset, fragment.values);
  return {point.add(change.narrow(0, 0, fragment.values)), riders};
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

// All members make both exchanges of each average, so that nobody takes one for another.
void StreamedAverage::Drop() {
  if (wait_ != nullptr) {
    if (rounds() && !after_.mean.defined()) Turn();
    wait_();
  }
  Forget();
}

void StreamedAverage::Forget() {
  position_.begun = -1;
  sent_ = at::Tensor();
  after_ = {};
  received_ = at::Tensor();
  wait_ = nullptr;
}

QuantizedMean::Residuals StreamedAverage::ResidualsAfter() const {
  const at::NoGradGuard no_grad;
  QuantizedMean::Residuals all{residuals_.own.clone(), residuals_.mean.clone()};
  const QuantizedMean::Residuals residuals = rounding().Of(all);
  if (after_.own.defined()) residuals.own.copy_(after_.own);
  if (after_.mean.defined()) residuals.mean.copy_(after_.mean);
  return all;
}

void StreamedAverage::AddMemory(LevelMemory* level) const {
  level->stream = {position_, sent_};
  if (!rounds()) return;
  level->residuals = residuals_;
  if (!position_.is_waiting()) return;
  level->before = residuals_;
  level->residuals = ResidualsAfter();
}

std::vector<NamedTensor> StreamedAverage::Own() const {
  if (!rounds()) return {};
  return {{"averager/level0/error", residuals_.own},
          {"averager/level0/mean_error", residuals_.mean}};
}

}  // namespace paceline
