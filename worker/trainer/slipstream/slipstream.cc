#include "worker/trainer/slipstream/slipstream.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/comm/make_equal.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/slipstream/slipstream_shared.h"

namespace paceline {
namespace {

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
  const SlipstreamPlan& plan = *parts.plan->plan.slipstream;
  const bool loops = parts.streams == nullptr;
  parts.memory.buffers = std::make_unique<SlipstreamBuffers>(parts.model, loops);
  parts.memory.Join(parts.config, FirstState(parts.config, plan, parts.memory.start));
}

}  // namespace

absl::Time SteadyNow() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return absl::UnixEpoch() + absl::FromChrono(since);
}

void SlipstreamMemory::Join(const TrainerConfig& config, const RoundState& state) {
  if (rank.has_value()) return rank->Rejoin(config.rank(), state, now());
  SlipstreamRank::Options options;
  options.rank = config.rank();
  options.stops_at_bad_update = config.on_nonfinite == NonFinite::kStop;
  options.lossy_updates = config.gradient_format == WireFormat::kInt8;
  rank.emplace(options, state, now());
}

Slipstream::Slipstream(const Parts& parts)
    : shared_([&parts] {
        if (!parts.memory.rank.has_value()) Begin(parts);
        return std::make_unique<Shared>(parts);
      }()) {
  Shared& shared = *shared_;
  shared.progress.SetActive(plan().epoch, steps_done());
  shared.progress.IsNew(plan().epoch);
  Prepare(parts.plan->plan);  // A generation may begin with another one.
  if (parts.memory.rank->state().started) shared.SetTimeout();
  shared.thread = std::thread([&shared] { shared.Run(); });
}

Slipstream::~Slipstream() {
  {
    const Shared::Telling telling(*shared_);
    shared_->stopping = true;
  }
  shared_->thread.join();
  const absl::MutexLock lock(&shared_->mu);
  shared_->rank->DropStep();
}

void Slipstream::Shared::WaitForWord(int64_t seen, absl::Duration timeout) {
  const auto has_word = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return told != seen; };
  mu.AwaitWithTimeout(absl::Condition(&has_word), timeout);
}

absl::StatusOr<Slipstream::Order> Slipstream::Next(
    const std::function<void(ComputeOrder::Wait)>& on_wait) {
  Shared& shared = *shared_;
  std::optional<ComputeOrder::Wait> waits;
  while (true) {
    ComputeOrder order;
    SlipstreamRank::Buffers names;
    int64_t seen = 0;
    absl::Status fault;
    bool loads = false;
    {
      const absl::MutexLock lock(&shared.mu);
      if (shared.failure != nullptr) std::rethrow_exception(shared.failure);
      order = shared.rank->NextCompute(shared.Now());
      names = shared.rank->buffers();
      seen = shared.told;
      if (order.kind == ComputeOrder::Kind::kEnd && !shared.rank->fault().empty()) {
        fault = shared.Fault();
        loads = shared.rank->models_differ();
      }
    }
    if (!fault.ok()) {
      if (loads) shared.Copy(ComputeOrder::Copy::kLoad, names);
      shared.order.TakeBack();
      return fault;
    }
    const absl::Time start = shared.Now();
    switch (order.kind) {
      case ComputeOrder::Kind::kWait: {
        if (waits != order.wait) on_wait(order.wait);
        waits = order.wait;
        const absl::MutexLock lock(&shared.mu);
        shared.WaitForWord(seen, absl::InfiniteDuration());
        const double seconds = absl::ToDoubleSeconds(shared.Now() - start);
        (*waits == ComputeOrder::Wait::kCap ? shared.figures.cap_wait_s
                                            : shared.figures.round_wait_s) += seconds;
        break;
      }
      case ComputeOrder::Kind::kCopy: {
        shared.Copy(order.copy, names);
        if (order.resets_optimizer) shared.ResetOptimizer();
        const Shared::Telling telling(shared);
        shared.rank->OnCopied(shared.Now() - start);
        break;
      }
      case ComputeOrder::Kind::kGradient:
      case ComputeOrder::Kind::kUpdate:
      case ComputeOrder::Kind::kStop:
      case ComputeOrder::Kind::kEnd: {
        shared.order.TakeBack();
        if (order.kind == ComputeOrder::Kind::kGradient) shared.buffers.DropGradients();
        if (order.kind == ComputeOrder::Kind::kUpdate) shared.order.WaitForLatestStep();
        const absl::MutexLock lock(&shared.mu);
        return shared.Describe(order.kind);
      }
    }
  }
}

void Slipstream::Shared::Copy(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names) {
  order.Run(PassOrder::Side::kCompute, UseOf(copy, names), [&] { buffers.Copy(copy, names); });
}

void Slipstream::Shared::ResetOptimizer() {
  order.Run(PassOrder::Side::kCompute, {0, PassUse::kOptimizer}, [&] { parts.optimizer.Reset(); });
}

Slipstream::Order Slipstream::Shared::Describe(ComputeOrder::Kind kind) const {
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

absl::Status Slipstream::Shared::Fault() const {
  const std::vector<int>& ranks = rank->fault_ranks();
  const bool own = std::find(ranks.begin(), ranks.end(), parts.config.rank()) != ranks.end();
  return own ? absl::InternalError(rank->fault()) : absl::UnavailableError(rank->fault());
}

void Slipstream::OnUpdated(absl::Duration took, double loss) {
  shared_->order.HandOver();
  const Shared::Telling telling(*shared_);
  shared_->rank->OnStepped(took, loss);
  ++shared_->figures.steps;
}

void Slipstream::OnGradient(absl::Duration took, double loss) {
  const double squared = shared_->buffers.SquaredGradient(
      [this] { shared_->order.WaitForStream(PassOrder::Side::kCompute); });
  shared_->order.HandOver();
  const Shared::Telling telling(*shared_);
  shared_->rank->OnGradient(squared, took, loss);
  ++shared_->figures.steps;
}

void Slipstream::OnStopped() {
  shared_->order.HandOver();
  const Shared::Telling telling(*shared_);
  shared_->rank->OnStopped(shared_->Now());
}

void Slipstream::SetFault(const std::string& reason) {
  const Shared::Telling telling(*shared_);
  shared_->rank->DropStep();
  shared_->rank->SetFault(reason);
}

void Slipstream::Prepare(const TrainingPlan& plan) {
  PlanProgress& progress = shared_->progress;
  if (!progress.IsNew(plan.epoch)) return;
  const TrainerConfig& config = shared_->parts.config;
  const absl::Status fits = CheckPlan(plan, config.strategy.kind, config.member.world_size);
  if (!fits.ok()) return progress.SetFailed(plan.epoch, std::string(fits.message()));
  SlipstreamPlan own = *plan.slipstream;
  own.epoch = plan.epoch;
  progress.SetPrepared(plan.epoch);
  const Shared::Telling telling(*shared_);
  shared_->rank->Prepare(own);
}

void Slipstream::OrderSave(int64_t number) {
  const Shared::Telling telling(*shared_);
  shared_->rank->OrderSave(number);
}

void Slipstream::ReadyToLeave(int64_t generation) {
  const Shared::Telling telling(*shared_);
  shared_->rank->ReadyToLeave(generation);
}

void Slipstream::FlipBit() {
  const absl::MutexLock lock(&shared_->mu);
  shared_->flips_bit = true;
}

bool Slipstream::models_differ() const {
  const absl::MutexLock lock(&shared_->mu);
  return shared_->rank->models_differ();
}

int64_t Slipstream::rounds() const {
  const absl::MutexLock lock(&shared_->mu);
  return shared_->rank->state().round;
}

RankSteps Slipstream::total() const {
  const absl::MutexLock lock(&shared_->mu);
  return shared_->rank->state().total;
}

int64_t Slipstream::TakeSentBytes() {
  const absl::MutexLock lock(&shared_->mu);
  return std::exchange(shared_->sent_bytes, 0);
}

SlipstreamPlan Slipstream::plan() const {
  const absl::MutexLock lock(&shared_->mu);
  return shared_->rank->state().plan;
}

SlipstreamFigures Slipstream::figures() const {
  const absl::MutexLock lock(&shared_->mu);
  const SlipstreamRank& rank = *shared_->rank;
  const RoundState& round = rank.state();
  SlipstreamFigures figures = shared_->figures;
  figures.mode = round.plan.mode;
  figures.contributions = rank.contributions();
  figures.stale_rounds = rank.stale_rounds();
  figures.sent_updates = rank.sent_updates();
  figures.lost_updates = rank.lost_updates();
  figures.used_gradients = rank.used_gradients();
  figures.dropped_gradients = rank.late().dropped();
  figures.round_collective_s = absl::ToDoubleSeconds(round.window.collective());
  figures.round_copies_s = absl::ToDoubleSeconds(round.window.copies());
  if (IsLocal(round.plan.mode)) {
    figures.window_s = absl::ToDoubleSeconds(round.window.Length(round.plan.window));
    figures.cap = round.window.Cap(round.plan.window);
  }
  return figures;
}

}  // namespace paceline
