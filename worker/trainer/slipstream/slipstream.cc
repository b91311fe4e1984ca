#include "worker/trainer/slipstream/slipstream.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "slipstream/quorum.h"
#include "worker/trainer/comm/make_equal.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/slipstream/slipstream_shared.h"

namespace paceline {
namespace {

RoundState FirstState(const TrainerConfig& config, bool evaluates, const SlipstreamPlan& plan,
                      const RankSteps& start) {
  RoundState state;
  state.total = start.WithRanks(config.member.world_size);
  state.target_steps = config.steps;
  state.generation = config.member.generation;
  if (evaluates) state.periods.evaluation = config.eval_every;
  if (!config.checkpoint.directory.empty()) state.periods.save = config.checkpoint.every_steps;
  state.plan = plan;
  return state;
}

// Whether the optimizer's state can be averaged where that is needed between these plans.
absl::Status CheckState(const SlipstreamPlan& now, const SlipstreamPlan& next,
                        const Optimizer& optimizer) {
  const bool settles = IsLocal(now.mode) && !IsLocal(next.mode);
  return settles || next.averages_state ? optimizer.CheckMean() : absl::Status();
}

// Begins a training: all ranks get rank 0's model.
void Begin(const Slipstream::Parts& parts) {
  const SlipstreamPlan& plan = *parts.plan->plan.slipstream;
  const absl::Status averages = plan.averages_state ? parts.optimizer.CheckMean() : absl::Status();
  TORCH_CHECK_VALUE(averages.ok(), std::string(averages.message()));
  MakeEqual(parts.groups.all(), parts.model.parameters());
  parts.groups.all().CopyFromFirst(TensorsOf(parts.model.buffers()));
  const bool loops = parts.streams == nullptr;
  parts.memory.buffers = std::make_unique<SlipstreamBuffers>(parts.model, loops);
  parts.memory.Join(parts.config,
                    FirstState(parts.config, parts.evaluates, plan, parts.memory.start));
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
  shared.progress.SetActive(plan().version, steps_done());
  shared.progress.IsNew(plan().version);
  Prepare(parts.plan->plan);  // A generation may begin with another plan.
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
  const auto has_word = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return reported != seen; };
  mu.AwaitWithTimeout(absl::Condition(&has_word), timeout);
}

Slipstream::Shared::Ordered Slipstream::Shared::Ask() {
  const absl::MutexLock lock(&mu);
  if (failure != nullptr) std::rethrow_exception(failure);
  Ordered ordered;
  ordered.at = Now();
  ordered.order = rank->NextCompute(ordered.at);
  ordered.names = rank->buffers();
  ordered.reported = reported;
  ordered.update_periods = rank->update_periods();
  return ordered;
}

void Slipstream::Shared::MakeCopy(const Ordered& ordered) {
  Copy(ordered.order.copy, ordered.names);
  if (ordered.order.resets_optimizer) ResetOptimizer();
  const Telling telling(*this);
  rank->OnCopied(Now() - ordered.at);
}

bool Slipstream::Shared::GroupAgrees(const Ordered& ordered) {
  const std::vector<double> numbers = GroupSteps::Numbers(ordered.order.kind);
  at::Tensor sums = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  double* const first = sums.mutable_data_ptr<double>();
  std::copy(numbers.begin(), numbers.end(), first);
  parts.plan->gradients->SumFew(sums);
  return group.Agree(absl::MakeConstSpan(first, numbers.size()), ordered.order.kind,
                     ordered.update_periods);
}

void Slipstream::Shared::Wait(const Ordered& ordered, bool asks_group) {
  int64_t seen = ordered.reported;
  if (ordered.order.kind == ComputeOrder::Kind::kUpdate ||
      ordered.order.kind == ComputeOrder::Kind::kGradient) {
    const Telling telling(*this);
    rank->DropStep();
    ++seen;  // Ignore this thread's own report.
  }
  const absl::MutexLock lock(&mu);
  WaitForWord(seen,
              asks_group ? Quorum::Pause(rank->state().window.step()) : absl::InfiniteDuration());
  if (ordered.order.kind != ComputeOrder::Kind::kWait) return;
  const double seconds = absl::ToDoubleSeconds(Now() - ordered.at);
  (ordered.order.wait == ComputeOrder::Wait::kCap ? figures.cap_wait_s : figures.round_wait_s) +=
      seconds;
}

absl::StatusOr<Slipstream::Order> Slipstream::Shared::Begin(const Ordered& ordered) {
  const ComputeOrder::Kind kind = ordered.order.kind;
  absl::Status fault;
  bool loads = false;
  {
    const absl::MutexLock lock(&mu);
    if (kind == ComputeOrder::Kind::kEnd && !rank->fault().empty()) {
      fault = Fault();
      loads = rank->models_differ();
    }
  }
  if (loads) Copy(ComputeOrder::Copy::kLoad, ordered.names);
  order.TakeBack();
  if (!fault.ok()) return fault;
  if (kind == ComputeOrder::Kind::kGradient || kind == ComputeOrder::Kind::kUpdate) {
    buffers.DropGradients();
  }
  if (kind == ComputeOrder::Kind::kUpdate) order.WaitForLatestStep();
  const absl::MutexLock lock(&mu);
  return Describe(kind);
}

absl::StatusOr<Slipstream::Order> Slipstream::Next(
    const std::function<void(ComputeOrder::Wait)>& on_wait) {
  Shared& shared = *shared_;
  std::optional<ComputeOrder::Wait> waits;
  const auto begin_wait = [&](ComputeOrder::Wait wait) {
    if (waits != wait) on_wait(wait);
    waits = wait;
  };
  while (true) {
    const Shared::Ordered ordered = shared.Ask();
    const ComputeOrder& order = ordered.order;
    if (order.kind == ComputeOrder::Kind::kCopy) {
      shared.MakeCopy(ordered);
      continue;
    }
    const bool goes = order.kind != ComputeOrder::Kind::kWait;
    const bool asks_group = shared.group.Asks(ordered.update_periods);
    if (!goes) {
      begin_wait(order.wait);
    } else if (asks_group) {
      begin_wait(ComputeOrder::Wait::kGroup);
    }
    // A waiting rank also answers its group.
    const bool agreed = !asks_group || shared.GroupAgrees(ordered);
    if (!goes || !agreed) {
      shared.Wait(ordered, asks_group);
      continue;
    }
    return shared.Begin(ordered);
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
  shared_->buffers.TakeGradients();
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
  if (!progress.IsNew(plan.version)) return;
  const TrainerConfig& config = shared_->parts.config;
  absl::Status fits = CheckPlan(plan, config.strategy.kind, config.member.world_size);
  if (fits.ok()) fits = CheckState(this->plan(), *plan.slipstream, shared_->parts.optimizer);
  if (!fits.ok()) return progress.SetFailed(plan.version, std::string(fits.message()));
  if (plan.gradient_groups != shared_->parts.plan->plan.gradient_groups) {
    return progress.SetFailed(plan.version, "its gradient groups are not those of this generation");
  }
  SlipstreamPlan own = *plan.slipstream;
  own.version = plan.version;
  progress.SetPrepared(plan.version);
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
