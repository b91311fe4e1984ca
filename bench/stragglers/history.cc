#include "bench/stragglers/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline::detect {
namespace {

constexpr double kForwardShare = 0.35;
constexpr double kSplitJitter = 1.5;  // Factor of the noise's split between forward and backward.
constexpr double kUnproportional = 0.05;
constexpr double kUsualWait = 0.002;  // Seconds for data.
constexpr double kWaitBegins = 0.1;   // Seconds; least value of the Pareto distribution.
constexpr double kWaitExponent = 1.5;
constexpr double kLongestWait = 30;
constexpr double kCommunication = 1.05;
constexpr double kTick = 0.01;
constexpr int kWarmUp = 10;
constexpr int kLongestDelay = 5;
constexpr int kSilence = 25;
constexpr double kDriftPeriod = 400;
constexpr double kHours = 1e5;

uint64_t Hash(const std::string& text) {  // FNV-1a.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Draws what the spec leaves open.
HistorySpec Settle(HistorySpec spec, Random& random) {
  const double step_s = random.Between(spec.step_s.low, spec.step_s.high);
  spec.step_s = {step_s, step_s};
  const int noise = random.Below(static_cast<int>(Noise::kMixed));
  if (spec.noise == Noise::kMixed) spec.noise = static_cast<Noise>(noise);
  return spec;
}

}  // namespace

History::History(const HistorySpec& spec, uint64_t seed)
    : random_(seed ^ Hash(SpecText(spec))),
      spec_(Settle(spec, random_)),
      noise_(spec_.noise, spec_.sd, spec_.rho, spec_.ranks, spec_.ranks_per_node, random_.Next()),
      tick_s_(spec_.noise == Noise::kQuantised ? kTick : 0),
      faults_(DrawFaults(spec_, random_)),
      drift_phase_(random_.Between(0, 2 * M_PI)),
      slow_(static_cast<size_t>(spec_.ranks)),
      measured_(static_cast<size_t>(spec_.ranks)),
      pending_(kLongestDelay + 1),
      silent_(static_cast<size_t>(spec_.ranks)) {
  const int of_stage = spec_.ranks / spec_.stages;
  for (int rank = 0; rank < spec_.ranks; ++rank) {
    const int stage = rank / of_stage;
    ranks_.push_back({rank / spec_.ranks_per_node, stage});
    const bool last = spec_.stages > 1 && stage == spec_.stages - 1;
    usual_.push_back(spec_.step_s.low * (last ? spec_.last_stage : 1) *
                     std::exp(spec_.spread * random_.Normal()));
  }
  for (Fault& fault : faults_) {
    if (fault.of_few()) CompareUsual(fault);
  }
  for (int i = 0; i < spec_.restarts; ++i) {
    restarts_.push_back(static_cast<int64_t>(random_.Between(0.15, 0.85) * spec_.steps));
  }
  std::sort(restarts_.begin(), restarts_.end());
}

void History::CompareUsual(Fault& fault) const {
  for (const int rank : fault.ranks) {
    const DetectorRank& own = ranks_[static_cast<size_t>(rank)];
    std::vector<double> peers;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].peer_group == own.peer_group && ranks_[r].node != own.node) {
        peers.push_back(usual_[r]);
      }
    }
    if (peers.empty()) return;
    fault.usual.push_back(usual_[static_cast<size_t>(rank)] / MedianOf(absl::MakeSpan(peers)));
  }
}

void History::MeasureStep() {
  const int64_t age = step_ - start_;
  const double angle = 2 * M_PI * static_cast<double>(step_) / kDriftPeriod + drift_phase_;
  common_ = 1 + spec_.drift * (std::sin(angle) + 0.5 * (2 * random_.Unit() - 1));
  checkpoint_ = spec_.checkpoint_every > 0 && (step_ + 1) % spec_.checkpoint_every == 0;
  if (checkpoint_) common_ *= random_.Between(1.2, 1.5);
  std::fill(slow_.begin(), slow_.end(), Slow{});
  for (const Fault& fault : faults_) {
    const double more = fault.FactorAt(step_) - 1;
    if (more == 0) continue;
    for (const int rank : fault.ranks) {
      Slow& slow = slow_[static_cast<size_t>(rank)];
      if (fault.cause == FaultCause::kCompute) slow.compute *= 1 + more;
      if (fault.cause == FaultCause::kData) slow.data += more;
      if (fault.cause == FaultCause::kPause) slow.pause += more;
    }
  }
  if (age < kWarmUp) {
    for (Slow& slow : slow_) {
      slow.compute *= 1 + 2 * random_.Unit() * (1 - static_cast<double>(age) / kWarmUp);
    }
  }
  noise_.NextStep();
  double slowest = 0;
  for (int rank = 0; rank < spec_.ranks; ++rank) {
    Measure(rank);
    const StepSample& sample = measured_[static_cast<size_t>(rank)];
    slowest = std::max(slowest, sample.forward_s + sample.backward_s + sample.data_wait_s);
  }
  for (StepSample& sample : measured_) sample.wall_s = slowest * kCommunication;
}

void History::Measure(int rank) {
  const auto r = static_cast<size_t>(rank);
  const Slow& slow = slow_[r];
  double compute = usual_[r] * common_ * slow.compute * std::exp(noise_.Next(rank));
  StepSample& sample = measured_[r];
  sample = StepSample();
  sample.rank = rank;
  sample.step = step_;
  sample.masked = checkpoint_;
  if (spec_.imbalance > 0) {
    const double work = std::exp(spec_.imbalance * random_.Normal());
    compute *= kUnproportional + (1 - kUnproportional) * work;
    if (spec_.workload) sample.workload = work;
  }
  const double jitter = kSplitJitter * spec_.sd * std::sqrt(12.0) * (random_.Unit() - 0.5);
  sample.forward_s = compute * kForwardShare * (1 + jitter);
  sample.backward_s = compute - sample.forward_s;
  sample.forward_s += compute * slow.pause;
  sample.data_wait_s = kUsualWait + compute * slow.data;
  if (random_.Unit() < spec_.pauses + spec_.loader) AddPauses(sample);
  if (tick_s_ > 0) {
    sample.forward_s = std::round(sample.forward_s / tick_s_) * tick_s_;
    sample.backward_s = std::round(sample.backward_s / tick_s_) * tick_s_;
  }
}

void History::AddPauses(StepSample& sample) {
  if (random_.Chance(spec_.pauses / (spec_.pauses + spec_.loader))) {
    const double growth = 1 + static_cast<double>(step_) / spec_.steps;
    sample.forward_s += growth * random_.Between(spec_.pause_s.low, spec_.pause_s.high);
    return;
  }
  const double wait =
      std::min(kLongestWait, kWaitBegins * std::pow(1 - random_.Unit(), -1 / kWaitExponent));
  (spec_.loader_reported ? sample.data_wait_s : sample.forward_s) += wait;
}

std::vector<StepSample>& History::PendingAfter(int64_t steps) {
  return pending_[static_cast<size_t>((step_ + steps) % (kLongestDelay + 1))];
}

void History::Deliver(const StepSample& sample, std::vector<StepSample>& arrivals) {
  int& silent = silent_[static_cast<size_t>(sample.rank)];
  if (silent > 0) {
    --silent;
    return;
  }
  if (random_.Chance(spec_.missing / 2)) return;
  if (random_.Chance(spec_.missing / 2 / kSilence)) silent = kSilence - 1;
  if (silent > 0) return;
  if (random_.Chance(spec_.late)) {
    PendingAfter(random_.Integer(1, kLongestDelay)).push_back(sample);
    return;
  }
  arrivals.push_back(sample);
  if (random_.Chance(spec_.garbage)) Spoil(arrivals.back());
  if (random_.Chance(spec_.repeated)) {
    PendingAfter(random_.Integer(1, kLongestDelay)).push_back(arrivals.back());
  }
}

void History::Spoil(StepSample& sample) {
  switch (random_.Below(3)) {
    case 0:
      sample.forward_s = -sample.forward_s;
      break;
    case 1:
      sample.backward_s = std::numeric_limits<double>::quiet_NaN();
      break;
    default:
      sample.forward_s = kHours;
  }
}

bool History::Next(std::vector<StepSample>& arrivals, bool& restarted) {
  arrivals.clear();
  ++step_;
  restarted = std::binary_search(restarts_.begin(), restarts_.end(), step_);
  if (restarted) {
    start_ = step_;
    for (auto& pending : pending_) pending.clear();
  }
  if (step_ >= spec_.steps) {
    for (int64_t i = 0; i <= kLongestDelay; ++i) {
      arrivals.insert(arrivals.end(), PendingAfter(i).begin(), PendingAfter(i).end());
    }
    return false;
  }
  arrivals.swap(PendingAfter(0));
  MeasureStep();
  for (const StepSample& sample : measured_) Deliver(sample, arrivals);
  if (spec_.reordered) {
    for (size_t i = arrivals.size(); i > 1; --i) {
      std::swap(arrivals[i - 1], arrivals[static_cast<size_t>(random_.Below(static_cast<int>(i)))]);
    }
  }
  return true;
}

}  // namespace paceline::detect
