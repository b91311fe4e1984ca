#include "worker/trainer/loop/training.h"

namespace paceline {

Group& LaneOf(const TrainingParts& parts) {
  return parts.plan->shards.has_value() ? *parts.plan->shards->lane : parts.groups.all();
}

Profiler::Options ProfilerOptions(const TrainingParts& parts) {
  Profiler::Options options;
  options.directory = parts.profile_directory;
  options.rank = parts.config.rank();
  options.cuda = parts.config.cuda;
  options.timer = &parts.timer;
  options.interpreter = parts.workload.interpreter();
  options.answered = &parts.state.profiled;
  options.own_pace = parts.config.strategy.kind == StrategyConfig::Kind::kSlipstream;
  options.start_memory = [&platform = parts.platform] { platform.RecordMemory(true); };
  options.write_memory = [&platform = parts.platform](const std::string& path) {
    const absl::Status status = platform.SnapshotMemory(path);
    platform.RecordMemory(false);
    return status;
  };
  options.on_result = [&control = parts.control](const ProfileResult& result) {
    control.SetProfile(result);
  };
  return options;
}

}  // namespace paceline
