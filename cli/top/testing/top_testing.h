// A cluster as `paceline top` sees it, for tests.
#ifndef CLI_TOP_TESTING_TOP_TESTING_H_
#define CLI_TOP_TESTING_TOP_TESTING_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "cli/top/top_model.h"

namespace paceline {

inline v1::Job PlayedJob(const std::string& name, v1::JobState state, int ranks = 4) {
  v1::Job job;
  job.set_id(absl::StrCat("job-", name));
  job.set_state(state);
  job.set_reason("all ranks train");
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->set_ranks(ranks);
  job.mutable_spec()->set_steps(2000);
  job.mutable_progress()->set_step(409);
  job.mutable_progress()->set_samples_per_s(8100);
  job.mutable_progress()->set_mfu(0.41);
  for (int r = 0; r < ranks; ++r) {
    v1::Rank& rank = *job.add_ranks();
    rank.set_rank(r);
    rank.set_node(absl::StrCat("w", r));
    rank.set_state(v1::TRAINER_RUNNING);
    rank.mutable_progress()->set_step(409);
    rank.mutable_progress()->set_step_s(0.1 + 0.001 * r);
    rank.mutable_progress()->set_phase(v1::FORWARD);
  }
  return job;
}

// Two jobs on four nodes; rank 2 of the first is slow.
inline TopModel PlayedModel() {
  TopModel model;
  model.server = "127.0.0.1:7450";
  model.fetched = absl::FromUnixSeconds(1700000000);
  model.jobs = {PlayedJob("story", v1::RUNNING), PlayedJob("digits", v1::QUEUED, 2),
                PlayedJob("old", v1::FAILED)};
  model.jobs[1].set_reason("waits for 2 slots");
  for (int n = 0; n < 4; ++n) {
    v1::Node& node = model.nodes.emplace_back();
    node.set_name(absl::StrCat("w", n));
    node.set_state(n == 3 ? v1::NODE_LOST : v1::NODE_READY);
    node.set_slots(2);
    node.set_slots_used(1);
  }
  v1::JobTelemetry& telemetry = model.telemetry["job-story"];
  telemetry.set_step_s(0.116);
  telemetry.set_wait_share(0.35);
  for (const float value : {0.1f, 0.11f, 0.116f}) telemetry.add_recent_step_s(value);
  v1::StragglerVerdict& verdict = *telemetry.add_slow();
  verdict.set_rank(2);
  verdict.set_node("w2");
  verdict.set_slowdown(1.65);
  verdict.set_cause(v1::CAUSE_HOST_PAUSE);
  telemetry.set_slow_count(1);
  telemetry.set_decision("hot-swap of rank 2 on w2");
  telemetry.set_decision_state(v1::DECISION_ORDERED);
  return model;
}

// The ranks of its first job.
inline v1::JobRanks PlayedRanks(int ranks = 4) {
  v1::JobRanks table;
  table.set_job_id("job-story");
  table.set_rank_count(ranks);
  table.set_median_step_s(0.116);
  table.set_median_own_s(0.07);
  for (int r = 0; r < ranks; ++r) {
    v1::RankTelemetry& rank = *table.add_ranks();
    rank.set_rank(r);
    rank.set_node(absl::StrCat("w", r));
    rank.set_state(v1::TRAINER_RUNNING);
    rank.set_step(409);
    rank.set_phase(v1::BACKWARD);
    rank.set_step_s(0.116);
    rank.set_own_s(r == 2 ? 0.1155 : 0.07);
    rank.set_wait_share(r == 2 ? 0.01 : 0.4);
    rank.set_host_bytes((100 + r) << 20);
    rank.set_samples_per_s(2000);
    if (r != 2) continue;
    rank.mutable_verdict()->set_rank(2);
    rank.mutable_verdict()->set_slowdown(1.65);
    rank.mutable_verdict()->set_cause(v1::CAUSE_HOST_PAUSE);
  }
  return table;
}

}  // namespace paceline

#endif  // CLI_TOP_TESTING_TOP_TESTING_H_
