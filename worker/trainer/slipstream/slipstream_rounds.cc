// The communication thread: makes the rounds.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/log.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/slipstream/slipstream_shared.h"

namespace paceline {
namespace {

constexpr PassOrder::Side kComm = PassOrder::Side::kComm;

void TellExcluded(const RoundSums& sums, int64_t round) {
  if (sums.excluded == 0) return;
  const std::string who = sums.excluded_rank < 0 ? absl::StrCat(sums.excluded, " ranks")
                                                 : absl::StrCat("rank ", sums.excluded_rank);
  PACELINE_LOG(WARNING) << "round " << round << ": what " << who
                        << " made is not finite, and is left out";
}

}  // namespace

void Slipstream::Shared::Run() {
  try {
    const c10::DeviceGuard device(parts.model.device());
    const at::NoGradGuard no_grad;
    const auto aside = order.GoAside();
    try {
      while (MakeNext()) {
      }
    } catch (...) {
      Drain();
      throw;
    }
    order.WaitForStream(kComm);  // Joining the thread must also wait for its stream.
  } catch (...) {
    const Telling telling(*this);
    failure = std::current_exception();
  }
}

// Work on the stream may belong to finished rounds.
void Slipstream::Shared::Drain() {
  try {
    order.WaitForStream(kComm);
  } catch (const std::exception&) {
    // The device has failed: report the first error, not this one.
  }
}

// Returns false when there are no more orders.
bool Slipstream::Shared::MakeNext() {
  CommOrder order;
  SlipstreamRank::Buffers names;
  {
    const absl::MutexLock lock(&mu);
    while (true) {
      if (stopping) return false;
      order = rank->NextComm(Now());
      if (order.kind == CommOrder::Kind::kEnd) return false;
      if (order.kind != CommOrder::Kind::kWait) break;
      WaitForWord(reported, order.until - Now());
    }
    names = rank->buffers();
  }
  Make(order, names);
  return true;
}

void Slipstream::Shared::Make(const CommOrder& order, const SlipstreamRank::Buffers& names) {
  switch (order.kind) {
    case CommOrder::Kind::kHash: {
      uint64_t hash = 0;
      this->order.Run(kComm, {PassUse::kZ, 0}, [&] { hash = buffers.Hash(); });
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
      return Apply(order.payload, names);
    case CommOrder::Kind::kWait:
    case CommOrder::Kind::kEnd:
      return;
  }
}

void Slipstream::Shared::Exchange() {
  std::vector<double> numbers;
  {
    const absl::MutexLock lock(&mu);
    numbers = rank->Numbers(Now());
  }
  at::Tensor sums = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  double* const first = sums.mutable_data_ptr<double>();
  std::copy(numbers.begin(), numbers.end(), first);
  parts.plan->headers->SumFew(sums);
  const Telling telling(*this);
  rank->OnExchanged(absl::MakeConstSpan(first, numbers.size()), Now());
}

void Slipstream::Shared::Fill(CommOrder::Fill fill, const SlipstreamRank::Buffers& names) {
  double squared = 0;
  order.Run(kComm, UseOf(fill, names), [&] {
    switch (fill) {
      case CommOrder::Fill::kUpdate:
        squared = buffers.FillUpdate(names, [this] { order.WaitForStream(kComm); });
        break;
      case CommOrder::Fill::kGradient:
        buffers.FillGradient();
        break;
      case CommOrder::Fill::kZeros:
        buffers.FillZeros();
        break;
    }
  });
  const Telling telling(*this);
  rank->OnFilled(squared);
}

void Slipstream::Shared::Reduce(const CommOrder::Payload& payload) {
  const absl::Time start = Now();
  int64_t bytes = 0;
  const auto sum = [&](const at::Tensor& tensor) {
    Sum(tensor);
    bytes += AllReduceBytes(static_cast<int64_t>(tensor.nbytes()), parts.config.member.world_size);
  };
  if (payload.lossy) {  // Only on a CPU.
    if (!int8_sum) {
      int8_sum.emplace(parts.groups.row_codec(), RowFormat::kInt8, *parts.plan->payloads,
                       buffers.wire().numel(), buffers.wire().options());
    }
    bytes += int8_sum->Sum(buffers.wire(), buffers.rest());
  } else if (payload.model > 0) {
    sum(buffers.wire());
  }
  if (payload.state > 0) {
    at::Tensor filled;
    order.Run(kComm, {PassUse::kOptimizer, 0}, [&] { filled = state.Fill(payload.has_state); });
    sum(filled);
  }
  if (order.on_device()) Confirm();
  const Telling telling(*this);
  sent_bytes += bytes;
  figures.collective_s += absl::ToDoubleSeconds(Now() - start);
  rank->OnReduced(Now());
}

void Slipstream::Shared::Sum(const at::Tensor& tensor) {
  if (!order.on_device()) return parts.plan->payloads->Sum(tensor);
  parts.plan->payloads->SumOnDevice(tensor, [this] { order.WaitForStream(kComm); });
}

// On a device, a rank cannot see that another one has aborted its part (Group::SumOnDevice). A rank
// that aborted does not reach this, and then nobody uses the sum.
void Slipstream::Shared::Confirm() { parts.plan->headers->SumFew(at::ones({1}, at::kDouble)); }

void Slipstream::Shared::Apply(const CommOrder::Payload& payload,
                               const SlipstreamRank::Buffers& names) {
  RoundState before;
  RoundSums sums;
  int64_t step = 0;
  bool flips = false;
  {
    const absl::MutexLock lock(&mu);
    flips = std::exchange(flips_bit, false);
    before = rank->state();
    sums = rank->sums();
    step = rank->schedule_step();
  }
  TellExcluded(sums, before.round + 1);
  if (!before.started && sums.started == before.ranks()) SetTimeout();
  const bool local = IsLocal(before.plan.mode);
  order.Run(kComm, UseOf(payload, local), [&] {
    if (payload.model > 0) {
      if (payload.lossy) {
        buffers.ApplyLossyUpdates(payload.model, payload.has_update, names);
      } else if (local) {
        buffers.ApplyUpdates(payload.model);
      } else {
        buffers.ApplyGradients(payload.model, parts.config.clip_grad_norm);
        at::Tensor(learning_rate).fill_(parts.learning_rate(step));
        parts.optimizer.Update(buffers.z_parameters(), buffers.wire_parameters(), learning_rate,
                               {});
      }
    }
    if (payload.state > 0) state.Apply(payload.state);
  });
  if (flips) order.Run(kComm, {0, PassUse::kZ}, [&] { buffers.FlipBit(); });
  RoundOutcome outcome;
  int64_t version = 0;
  int64_t steps_done = 0;
  {
    const Telling telling(*this);
    outcome = rank->OnApplied(Now());
    ++figures.rounds;
    figures.contributing_ranks += sums.active;
    if (sums.stretched) ++figures.stretched_rounds;
    if (sums.active > 0) figures.drift = std::sqrt(sums.squared_update / sums.active);
    if (sums.loss.has_value()) figures.loss = sums.loss;
    version = rank->state().plan.version;
    steps_done = rank->state().total.steps();
  }
  if (outcome.takes_up_plan) progress.SetActive(version, steps_done);
}

}  // namespace paceline
