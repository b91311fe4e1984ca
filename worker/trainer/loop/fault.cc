#include "worker/trainer/loop/fault.h"

#include <ATen/ops/empty.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr int kExitCode = 42;
constexpr int64_t kTooManyBytes = int64_t{1} << 60;

// Steele et al., "Fast splittable pseudorandom number generators" (2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool IsThere(const std::string& file) { return !file.empty() && ::access(file.c_str(), F_OK) == 0; }

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

bool Concerns(const FaultConfig& fault, const Member& member) {
  return (fault.rank == -1 || fault.rank == member.rank) &&
         (fault.generation == 0 || fault.generation == member.generation);
}

bool Happens(const FaultConfig& fault, uint64_t seed, int rank, int64_t step) {
  if (step < fault.step || step - fault.step >= fault.steps) return false;
  if (fault.probability >= 1) return true;
  const uint64_t draw =
      Mix(Mix(Mix(seed) ^ static_cast<uint64_t>(rank)) ^ static_cast<uint64_t>(step));
  return std::ldexp(static_cast<double>(draw), -64) < fault.probability;
}

bool FlipsBit(const TrainerConfig& config, int64_t step) {
  return std::any_of(config.chaos.begin(), config.chaos.end(), [&](const FaultConfig& fault) {
    return fault.kind == FaultConfig::Kind::kFlipBit && Concerns(fault, config.member) &&
           Happens(fault, config.seed, config.rank(), step) && !IsThere(fault.until_file);
  });
}

Chaos::Chaos(const TrainerConfig& config)
    : config_(config),
      active_(std::any_of(config.chaos.begin(), config.chaos.end(),
                          [&](const auto& fault) { return Concerns(fault, config.member); })),
      over_(config.chaos.size(), false) {}

bool Chaos::IsOver(size_t fault) {
  const std::string& file = config_.chaos[fault].until_file;
  if (!over_[fault] && IsThere(file)) {
    over_[fault] = true;
    PACELINE_LOG(WARNING) << "an injected fault is over: there is " << file;
  }
  return over_[fault];
}

void Chaos::Inject(const FaultConfig& fault, int64_t step) {
  switch (fault.kind) {
    case FaultConfig::Kind::kThrow:
      throw std::runtime_error(absl::StrCat("injected fault before step ", step));
    case FaultConfig::Kind::kAbort:
      std::abort();
    case FaultConfig::Kind::kExit:
      std::_Exit(kExitCode);
    case FaultConfig::Kind::kOutOfMemory:
      at::empty({kTooManyBytes}, at::kByte);
      return;
    case FaultConfig::Kind::kFreeze:
      ::raise(SIGSTOP);
      return;
    case FaultConfig::Kind::kKill:
      ::raise(SIGKILL);
      return;
    case FaultConfig::Kind::kMemoryGrowth:
      hoard_.emplace_back(fault.bytes, '\1');
      return;
    case FaultConfig::Kind::kLoaderStall:
      absl::SleepFor(fault.duration);
      return;
    case FaultConfig::Kind::kSleep:
      pause_ += fault.duration;
      return;
    case FaultConfig::Kind::kCommunicationDelay:
      delay_ += fault.duration;
      return;
    case FaultConfig::Kind::kSlow:
      factor_ *= fault.factor;
      return;
    case FaultConfig::Kind::kNanLoss:
    case FaultConfig::Kind::kFlipBit:
      return;
  }
}

bool Chaos::BeginStep(int64_t step) {
  if (!active_) return false;
  factor_ = 1;
  pause_ = delay_ = absl::ZeroDuration();
  bool nan_loss = false;
  for (size_t i = 0; i < config_.chaos.size(); ++i) {
    const FaultConfig& fault = config_.chaos[i];
    if (!Concerns(fault, config_.member) || !Happens(fault, config_.seed, config_.rank(), step) ||
        IsOver(i)) {
      continue;
    }
    // A fault over many steps is logged once.
    if (step == fault.step || fault.probability < 1) {
      PACELINE_LOG(WARNING) << "injecting a fault before step " << step;
    }
    nan_loss = nan_loss || fault.kind == FaultConfig::Kind::kNanLoss;
    Inject(fault, step);
  }
  return nan_loss;
}

void Chaos::BeginForward() {
  if (!active_) return;
  absl::SleepFor(std::exchange(pause_, absl::ZeroDuration()));
  begin_ = MonotonicNow();
}

void Chaos::EndForward() {
  if (factor_ > 1) absl::SleepFor((MonotonicNow() - begin_) * (factor_ - 1));
}

// The gradients must leave late, so the delay comes first; it is based on the previous pass.
void Chaos::BeginBackward() {
  if (!active_) return;
  if (factor_ > 1) absl::SleepFor(backward_ * (factor_ - 1));
  begin_ = MonotonicNow();
}

void Chaos::EndBackward() {
  if (active_) backward_ = MonotonicNow() - begin_;
}

void Chaos::BeforeExchange() { absl::SleepFor(std::exchange(delay_, absl::ZeroDuration())); }

}  // namespace paceline
