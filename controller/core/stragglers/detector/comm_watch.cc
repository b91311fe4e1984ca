#include "controller/core/stragglers/detector/comm_watch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

constexpr double kSlowTransfer = 0.0953;  // ln 1.1
constexpr double kForget = 0.98;          // Per step.

DetectorOptions ForTransfers(DetectorOptions options) {
  options.min_slowdown = options.max_slowdown = kSlowTransfer;
  return options;
}

// One rank for each group, each on a node of its own.
std::vector<DetectorRank> AsRanks(size_t groups) {
  std::vector<DetectorRank> ranks(groups);
  for (size_t group = 0; group < groups; ++group) ranks[group].node = static_cast<int>(group);
  return ranks;
}

}  // namespace

CommWatch::CommWatch(DetectorOptions options, std::vector<std::vector<int>> groups)
    : max_job_s_(options.max_step_s),
      groups_(std::move(groups)),
      detector_(ForTransfers(options), AsRanks(groups_.size())),
      lateness_(groups_.size()) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    lateness_[group].last.resize(groups_[group].size());
  }
  found_.reserve(groups_.size());
}

void CommWatch::Add(int group, int64_t step, absl::Span<const double> durations_s, double job_s,
                    std::vector<CommVerdict>& verdicts) {
  const bool known = group >= 0 && group < static_cast<int>(groups_.size());
  if (!known || durations_s.empty() ||
      durations_s.size() != groups_[static_cast<size_t>(group)].size() ||
      !std::all_of(durations_s.begin(), durations_s.end(), [](double s) { return s > 0; })) {
    ++invalid_;
    return;
  }
  const auto last = std::min_element(durations_s.begin(), durations_s.end());
  StepSample sample;
  sample.rank = group;
  sample.step = step;
  sample.forward_s = *last;
  sample.wall_s = std::min(job_s, max_job_s_);  // There may be many steps between two collectives.
  const int64_t taken = detector_.counts().taken;
  detector_.Add(sample, found_);
  if (detector_.counts().taken == taken) return;
  Lateness& lateness = lateness_[static_cast<size_t>(group)];
  lateness.steps = kForget * lateness.steps + 1;
  for (double& count : lateness.last) count *= kForget;
  lateness.last[static_cast<size_t>(last - durations_s.begin())] += 1;
  Translate(verdicts);
}

void CommWatch::Translate(std::vector<CommVerdict>& verdicts) {
  for (Verdict& found : found_) {
    if (found.kind == VerdictKind::kGroup || found.kind == VerdictKind::kNode) continue;
    CommVerdict reported;
    reported.group = found.rank;
    found.rank = found.node = found.peer_group = -1;
    found.cause = StragglerCause::kCommunication;
    reported.verdict = found;
    const auto group = static_cast<size_t>(reported.group);
    const Lateness& lateness = lateness_[group];
    const auto most = std::max_element(lateness.last.begin(), lateness.last.end());
    reported.waits_least = groups_[group][static_cast<size_t>(most - lateness.last.begin())];
    reported.share = *most / std::max(lateness.steps, 1.0);
    verdicts.push_back(reported);
  }
  found_.clear();
}

}  // namespace paceline
