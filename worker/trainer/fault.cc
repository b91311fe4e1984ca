#include "worker/trainer/fault.h"

#include <ATen/ops/empty.h>

#include <cstdlib>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr int kExitCode = 42;
constexpr int64_t kTooManyBytes = int64_t{1} << 60;

void Inject(const FaultConfig& fault) {
  PACELINE_LOG(WARNING) << "injecting a fault before step " << fault.step;
  switch (fault.kind) {
    case FaultConfig::Kind::kThrow:
      throw std::runtime_error(absl::StrCat("injected fault before step ", fault.step));
    case FaultConfig::Kind::kAbort:
      std::abort();
    case FaultConfig::Kind::kExit:
      std::_Exit(kExitCode);
    case FaultConfig::Kind::kOutOfMemory:
      at::empty({kTooManyBytes}, at::kByte);
      return;
    case FaultConfig::Kind::kSleep:
      absl::SleepFor(fault.duration);
      return;
  }
}

}  // namespace

void InjectFaults(const TrainerConfig& config, int64_t step) {
  for (const FaultConfig& fault : config.faults) {
    if (fault.step == step) Inject(fault);
  }
}

}  // namespace paceline
