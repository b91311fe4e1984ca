#include "worker/trainer/slipstream/slipstream.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/make_equal.h"
#include "worker/trainer/comm/plan_progress.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/slipstream/optimizer_state.h"

namespace paceline {
namespace {

absl::Time Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return absl::UnixEpoch() + absl::FromChrono(since);
}

RoundState FirstState(const TrainerConfig& config, const SlipstreamPlan& plan,
                      const RankSteps& start) {
  RoundState state;
  state.total = start.WithRanks(config.member.world_size);
  state.target_steps = config.steps;
  state.generation = config.member.generation;
  if (!config.data.eval.empty()) state.periods.evaluation = config.eval_every;
  if (!config.checkpoint.directory.empty()) state.periods.save = config.checkpoint.every_steps;
  state.plan = plan;
  return state;
}

// A training that begins: all ranks get the model of rank 0.
void Begin(const Slipstream::Parts& parts) {
  MakeEqual(parts.groups.all(), parts.model.parameters());
  parts.groups.all().CopyFromFirst(TensorsOf(parts.model.buffers()));
  SlipstreamRank::Options options;
  options.rank = parts.config.rank();
  options.stops_at_bad_update = parts.config.on_nonfinite == NonFinite::kStop;
  const SlipstreamPlan& plan = *parts.plan->plan.slipstream;
  parts.memory.buffers = std::make_unique<SlipstreamBuffers>(parts.model);
  parts.memory.rank.emplace(options, FirstState(parts.config, plan, parts.memory.start), Now());
}

}  // namespace

struct Slipstream::Impl {
  explicit Impl(const Parts& parts_in)
      : parts(parts_in),
        buffers(*parts.memory.buffers),
        state(parts.optimizer),
        learning_rate(MakeLearningRate(parts.model.device())),
        progress(parts.control),
        rank(&*parts.memory.rank),
        figures(parts.memory.figures) {}

  void Run();
  bool MakeNext();
  void Make(const CommOrder& order, const SlipstreamRank::Buffers& names);
  void Exchange();
  void Fill(CommOrder::Fill fill, const SlipstreamRank::Buffers& names);
  void Reduce(const CommOrder::Payload& payload);
  void Apply(const CommOrder::Payload& payload);
  Order Describe(ComputeOrder::Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  absl::Status Fault() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Until the other thread has told something since `told` was `seen`.
  void WaitForWord(int64_t seen, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Tells the machine something, and the other thread that it was told.
  template <typename F>
  void Tell(F what) {
    const absl::MutexLock lock(&mu);
    what();
    ++told;
  }

  const Parts parts;
  SlipstreamBuffers& buffers;  // Passes as the machine orders them.
  // Of the communication thread.
  OptimizerState state;
  const at::Tensor learning_rate;
  PlanProgress progress;

  absl::Mutex mu;
  SlipstreamRank* const rank ABSL_PT_GUARDED_BY(mu);
  SlipstreamFigures& figures ABSL_GUARDED_BY(mu);
  int64_t told ABSL_GUARDED_BY(mu) = 0;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::exception_ptr failure ABSL_GUARDED_BY(mu);  // Of the thread, which has ended by it.

  std::thread thread;
};

Slipstream::Slipstream(const Parts& parts)
    : impl_([&parts] {
        if (!parts.memory.rank.has_value()) Begin(parts);
        return std::make_unique<Impl>(parts);
      }()) {
  Impl& impl = *impl_;
  const int64_t epoch = parts.plan->plan.epoch;
  impl.progress.IsNew(epoch);
  impl.progress.SetActive(epoch, steps_done());
  impl.thread = std::thread([&impl] { impl.Run(); });
}

Slipstream::~Slipstream() {
  impl_->Tell([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl_->stopping = true; });
  impl_->thread.join();
}

void Slipstream::Impl::WaitForWord(int64_t seen, absl::Duration timeout) {
  const auto has_word = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return told != seen; };
  mu.AwaitWithTimeout(absl::Condition(&has_word), timeout);
}

absl::StatusOr<Slipstream::Order> Slipstream::Next(
    const std::function<void(ComputeOrder::Wait)>& on_wait) {
  Impl& impl = *impl_;
  std::optional<ComputeOrder::Wait> waits;
  while (true) {
    ComputeOrder order;
    SlipstreamRank::Buffers names;
    int64_t seen = 0;
    {
      const absl::MutexLock lock(&impl.mu);
      if (impl.failure != nullptr) std::rethrow_exception(impl.failure);
      order = impl.rank->NextCompute(Now());
      names = impl.rank->buffers();
      seen = impl.told;
      if (order.kind == ComputeOrder::Kind::kEnd && !impl.rank->fault().empty()) {
        return impl.Fault();
      }
    }
    const absl::Time start = Now();
    switch (order.kind) {
      case ComputeOrder::Kind::kWait: {
        if (waits != order.wait) on_wait(order.wait);
        waits = order.wait;
        const absl::MutexLock lock(&impl.mu);
        impl.WaitForWord(seen, absl::InfiniteDuration());
        const double seconds = absl::ToDoubleSeconds(Now() - start);
        (*waits == ComputeOrder::Wait::kCap ? impl.figures.cap_wait_s
                                            : impl.figures.round_wait_s) += seconds;
        break;
      }
      case ComputeOrder::Kind::kCopy:
        impl.buffers.Copy(order.copy, names);
        impl.Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl.rank->OnCopied(Now() - start); });
        break;
      case ComputeOrder::Kind::kGradient:
        impl.buffers.DropGradients();
        [[fallthrough]];
      case ComputeOrder::Kind::kUpdate:
      case ComputeOrder::Kind::kStop:
      case ComputeOrder::Kind::kEnd: {
        const absl::MutexLock lock(&impl.mu);
        return impl.Describe(order.kind);
      }
    }
  }
}

Slipstream::Order Slipstream::Impl::Describe(ComputeOrder::Kind kind) const {
  Order order;
  const RoundState& round = rank->state();
  order.ahead = rank->updates() - rank->sent_updates() - rank->lost_updates();
  order.step = rank->schedule_step();
  switch (kind) {
    case ComputeOrder::Kind::kUpdate:
      order.kind = Order::Kind::kUpdate;
      return order;
    case ComputeOrder::Kind::kGradient:
      order.kind = Order::Kind::kGradient;
      return order;
    case ComputeOrder::Kind::kStop:
      order.kind = Order::Kind::kStop;
      break;
    default:
      order.kind = Order::Kind::kEnd;
  }
  order.step = round.total.steps();
  order.evaluates = round.due.evaluates;
  order.saves = round.due.saves;
  order.save_order = round.due.save_order;
  return order;
}

absl::Status Slipstream::Impl::Fault() const {
  const std::vector<int>& ranks = rank->fault_ranks();
  const bool own = std::find(ranks.begin(), ranks.end(), parts.config.rank()) != ranks.end();
  return own ? absl::InternalError(rank->fault()) : absl::UnavailableError(rank->fault());
}

void Slipstream::OnUpdated(absl::Duration took, double loss) {
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    impl_->rank->OnStepped(took, loss);
    ++impl_->figures.steps;
  });
}

void Slipstream::OnGradient(absl::Duration took, double loss) {
  const double squared = impl_->buffers.SquaredGradient();
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    impl_->rank->OnGradient(squared, took, loss);
    ++impl_->figures.steps;
  });
}

void Slipstream::OnStopped() {
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl_->rank->OnStopped(Now()); });
}

void Slipstream::Prepare(const TrainingPlan& plan) {
  PlanProgress& progress = impl_->progress;
  if (!progress.IsNew(plan.epoch)) return;
  const TrainerConfig& config = impl_->parts.config;
  const absl::Status fits = CheckPlan(plan, config.strategy.kind, config.member.world_size);
  if (!fits.ok()) return progress.SetFailed(plan.epoch, std::string(fits.message()));
  SlipstreamPlan own = *plan.slipstream;
  own.epoch = plan.epoch;
  progress.SetPrepared(plan.epoch);
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl_->rank->Prepare(own); });
}

void Slipstream::OrderSave(int64_t number) {
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl_->rank->OrderSave(number); });
}

void Slipstream::ReadyToLeave(int64_t generation) {
  impl_->Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { impl_->rank->ReadyToLeave(generation); });
}

RankSteps Slipstream::total() const {
  const absl::MutexLock lock(&impl_->mu);
  return impl_->rank->state().total;
}

SlipstreamPlan Slipstream::plan() const {
  const absl::MutexLock lock(&impl_->mu);
  return impl_->rank->state().plan;
}

SlipstreamFigures Slipstream::figures() const {
  const absl::MutexLock lock(&impl_->mu);
  const SlipstreamRank& rank = *impl_->rank;
  const RoundState& round = rank.state();
  SlipstreamFigures figures = impl_->figures;
  figures.mode = round.plan.mode;
  figures.contributions = rank.contributions();
  figures.stale_rounds = rank.stale_rounds();
  figures.sent_updates = rank.sent_updates();
  figures.lost_updates = rank.lost_updates();
  figures.used_gradients = rank.used_gradients();
  figures.dropped_gradients = rank.late().dropped();
  if (IsLocal(round.plan.mode)) {
    figures.window_s = absl::ToDoubleSeconds(round.window.Length(round.plan.window));
    figures.cap = round.window.Cap(round.plan.window);
  }
  return figures;
}

// The communication thread.

void Slipstream::Impl::Run() {
  const c10::DeviceGuard device(parts.model.device());
  const at::NoGradGuard no_grad;
  try {
    while (MakeNext()) {
    }
  } catch (...) {
    Tell([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { failure = std::current_exception(); });
  }
}

// False: there is no further order.
bool Slipstream::Impl::MakeNext() {
  CommOrder order;
  SlipstreamRank::Buffers names;
  {
    const absl::MutexLock lock(&mu);
    while (true) {
      if (stopping) return false;
      order = rank->NextComm(Now());
      if (order.kind == CommOrder::Kind::kEnd) return false;
      if (order.kind != CommOrder::Kind::kWait) break;
      WaitForWord(told, order.until - Now());
    }
    names = rank->buffers();
  }
  Make(order, names);
  return true;
}

void Slipstream::Impl::Make(const CommOrder& order, const SlipstreamRank::Buffers& names) {
  switch (order.kind) {
    case CommOrder::Kind::kHash: {
      const uint64_t hash = buffers.Hash();
      return Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { rank->OnHashed(hash); });
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

void Slipstream::Impl::Exchange() {
  std::vector<double> numbers;
  {
    const absl::MutexLock lock(&mu);
    numbers = rank->Numbers(Now());
  }
  at::Tensor sums = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  double* const first = sums.mutable_data_ptr<double>();
  std::copy(numbers.begin(), numbers.end(), first);
  parts.plan->headers->SumFew(sums);
  Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    rank->OnExchanged(absl::MakeConstSpan(first, numbers.size()), Now());
  });
}

void Slipstream::Impl::Fill(CommOrder::Fill fill, const SlipstreamRank::Buffers& names) {
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
  Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { rank->OnFilled(squared); });
}

void Slipstream::Impl::Reduce(const CommOrder::Payload& payload) {
  const absl::Time start = Now();
  if (payload.model > 0) parts.plan->payloads->Sum(buffers.wire());
  if (payload.state > 0) parts.plan->payloads->Sum(state.Fill(payload.has_state));
  buffers.Synchronize();
  Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    figures.collective_s += absl::ToDoubleSeconds(Now() - start);
    rank->OnReduced(Now());
  });
}

void Slipstream::Impl::Apply(const CommOrder::Payload& payload) {
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
  Tell([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const RoundSums sums = rank->sums();
    outcome = rank->OnApplied(Now());
    ++figures.rounds;
    figures.contributing_ranks += sums.active;
    if (sums.active > 0) figures.drift = std::sqrt(sums.squared_update / sums.active);
    if (sums.loss.has_value()) figures.loss = sums.loss;
    epoch = rank->state().plan.epoch;
    steps_done = rank->state().total.steps();
  });
  if (outcome.takes_up_plan) progress.SetActive(epoch, steps_done);
}

}  // namespace paceline
