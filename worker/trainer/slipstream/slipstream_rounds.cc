// The communication thread: rounds.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/slipstream/slipstream_shared.h"

namespace paceline {

void Slipstream::Shared::Run() {
  const c10::DeviceGuard device(parts.model.device());
  const at::NoGradGuard no_grad;
  try {
    while (MakeNext()) {
    }
  } catch (...) {
    const Telling telling(*this);
    failure = std::current_exception();
  }
}

// False: there is no further order.
bool Slipstream::Shared::MakeNext() {
  CommOrder order;
  SlipstreamRank::Buffers names;
  {
    const absl::MutexLock lock(&mu);
    while (true) {
      if (stopping) return false;
      order = rank->NextComm(SteadyNow());
      if (order.kind == CommOrder::Kind::kEnd) return false;
      if (order.kind != CommOrder::Kind::kWait) break;
      WaitForWord(told, order.until - SteadyNow());
    }
    names = rank->buffers();
  }
  Make(order, names);
  return true;
}

void Slipstream::Shared::Make(const CommOrder& order, const SlipstreamRank::Buffers& names) {
  switch (order.kind) {
    case CommOrder::Kind::kHash: {
      const uint64_t hash = buffers.Hash();
      const Telling telling(*this);
      return rank->OnHashed(hash);
    }
    case CommOrder::Kind::kExchange:
      return Exchange();
    case CommOrder::Kind::kFill:
      return Fill(order.fill, names);
    case CommOrder::Kind::kReduce:
      return Reduce(order.payload);
    case CommOrder::Kind::kApply:
      return Apply(order.payload);
    case CommOrder::Kind::kWait:
    case CommOrder::Kind::kEnd:
      return;
  }
}

void Slipstream::Shared::Exchange() {
  std::vector<double> numbers;
  {
    const absl::MutexLock lock(&mu);
    numbers = rank->Numbers(SteadyNow());
  }
  at::Tensor sums = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  double* const first = sums.mutable_data_ptr<double>();
  std::copy(numbers.begin(), numbers.end(), first);
  parts.plan->headers->SumFew(sums);
  const Telling telling(*this);
  rank->OnExchanged(absl::MakeConstSpan(first, numbers.size()), SteadyNow());
}

void Slipstream::Shared::Fill(CommOrder::Fill fill, const SlipstreamRank::Buffers& names) {
  double squared = 0;
  switch (fill) {
    case CommOrder::Fill::kUpdate:
      squared = buffers.FillUpdate(names);
      break;
    case CommOrder::Fill::kGradient:
      buffers.FillGradient();
      break;
    case CommOrder::Fill::kZeros:
      buffers.FillZeros();
      break;
  }
  const Telling telling(*this);
  rank->OnFilled(squared);
}

void Slipstream::Shared::Reduce(const CommOrder::Payload& payload) {
  const absl::Time start = SteadyNow();
  if (payload.model > 0) parts.plan->payloads->Sum(buffers.wire());
  if (payload.state > 0) parts.plan->payloads->Sum(state.Fill(payload.has_state));
  buffers.Synchronize();
  const Telling telling(*this);
  figures.collective_s += absl::ToDoubleSeconds(SteadyNow() - start);
  rank->OnReduced(SteadyNow());
}

void Slipstream::Shared::Apply(const CommOrder::Payload& payload) {
  SlipstreamMode mode;
  int64_t step = 0;
  {
    const absl::MutexLock lock(&mu);
    mode = rank->state().plan.mode;
    step = rank->schedule_step();
  }
  if (payload.model > 0) {
    if (IsLocal(mode)) {
      buffers.ApplyUpdates(payload.model);
    } else {
      buffers.ApplyGradients(payload.model);
      at::Tensor(learning_rate).fill_(LearningRate(parts.config.schedule, step));
      parts.optimizer.Update(buffers.z_parameters(), buffers.wire_parameters(), learning_rate, {});
    }
  }
  if (payload.state > 0) state.Apply(payload.state);
  buffers.Synchronize();
  RoundOutcome outcome;
  int64_t epoch = 0;
  int64_t steps_done = 0;
  {
    const Telling telling(*this);
    const RoundSums sums = rank->sums();
    outcome = rank->OnApplied(SteadyNow());
    ++figures.rounds;
    figures.contributing_ranks += sums.active;
    if (sums.stretched) ++figures.stretched_rounds;
    if (sums.active > 0) figures.drift = std::sqrt(sums.squared_update / sums.active);
    if (sums.loss.has_value()) figures.loss = sums.loss;
    epoch = rank->state().plan.epoch;
    steps_done = rank->state().total.steps();
  }
  if (outcome.takes_up_plan) progress.SetActive(epoch, steps_done);
}

}  // namespace paceline
