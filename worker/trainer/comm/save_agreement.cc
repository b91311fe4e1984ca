#include "worker/trainer/comm/save_agreement.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

// How far ahead of the current step a promise is. Ranks mostly hear of an order with much less
// delay than this between them.
constexpr absl::Duration kLead = absl::Seconds(1);
constexpr double kMaxLeadSteps = 1e6;

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

SaveAgreement::SaveAgreement(Events events, int64_t steps_done)
    : events_(std::move(events)), steps_done_(steps_done), thread_([this] { Run(); }) {}

SaveAgreement::~SaveAgreement() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void SaveAgreement::Propose(const SaveOrder& order) {
  {
    const absl::MutexLock lock(&mu_);
    if (order.number <= known_) return;
    known_ = order.number;
    if (!closed_) {
      waiting_ = order;
      return;
    }
  }
  events_.given_up(order.number, "the last step was done when it was asked for");
}

void SaveAgreement::CountStep(absl::Time now) {
  if (window_begin_ == absl::InfinitePast()) {
    window_begin_ = now;
    return;
  }
  ++window_steps_;
  if (now - window_begin_ < kLead) return;
  step_time_ = (now - window_begin_) / window_steps_;
  window_begin_ = now;
  window_steps_ = 0;
}

int64_t SaveAgreement::LeadSteps() const {
  absl::Duration step_time = step_time_;
  if (step_time == absl::ZeroDuration() && window_steps_ > 0) {
    step_time = (MonotonicNow() - window_begin_) / window_steps_;
  }
  if (step_time == absl::ZeroDuration()) return 1;
  const double steps = std::ceil(absl::FDivDuration(kLead, step_time));
  return static_cast<int64_t>(std::clamp(steps, 1.0, kMaxLeadSteps));
}

bool SaveAgreement::MayGoOn() const {
  return steps_done_ < limit_ || !agreeing_ || error_ != nullptr;
}

std::optional<SaveOrder> SaveAgreement::AfterStep(int64_t steps_done, absl::Duration* waited) {
  const absl::MutexLock lock(&mu_);
  const absl::Time now = MonotonicNow();
  CountStep(now);
  steps_done_ = steps_done;
  if (!MayGoOn()) {
    mu_.Await(absl::Condition(this, &SaveAgreement::MayGoOn));
    *waited = MonotonicNow() - now;
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (agreed_.empty() || agreed_.front().step > steps_done) return std::nullopt;
  const SaveOrder due = agreed_.front().order;
  agreed_.pop_front();
  return due;
}

std::optional<SaveOrder> SaveAgreement::Close() {
  std::optional<SaveOrder> dropped;
  std::optional<SaveOrder> due;
  {
    const absl::MutexLock lock(&mu_);
    closed_ = true;
    dropped = std::exchange(waiting_, std::nullopt);
    const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !agreeing_; };
    mu_.Await(absl::Condition(&settled));
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (!agreed_.empty()) due = agreed_.back().order;
  }
  if (dropped) events_.given_up(dropped->number, "the last step was done when it was asked for");
  return due;
}

void SaveAgreement::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return waiting_.has_value() || stopping_;
  };
  while (true) {
    SaveOrder order;
    int64_t promise = 0;
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      order = *std::exchange(waiting_, std::nullopt);
      agreeing_ = true;
      promise = limit_ = steps_done_ + LeadSteps();
    }
    Agree(order, promise);
  }
}

void SaveAgreement::Agree(const SaveOrder& order, int64_t promise) {
  std::optional<int64_t> step;
  std::exception_ptr error;
  try {
    step = events_.greatest(order.number, promise);
  } catch (...) {
    error = std::current_exception();
  }
  if (!step.has_value()) {
    events_.given_up(order.number, "not all ranks answered in time");
  }
  const absl::MutexLock lock(&mu_);
  if (step.has_value()) agreed_.push_back({order, *step});
  error_ = error;
  agreeing_ = false;
  limit_ = kNoLimit;
}

}  // namespace paceline
