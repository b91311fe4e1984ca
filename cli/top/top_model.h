// What `paceline top` shows: the API's messages as last fetched.
#ifndef CLI_TOP_TOP_MODEL_H_
#define CLI_TOP_TOP_MODEL_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {

struct TopModel {
  std::string server;
  absl::Time fetched = absl::InfinitePast();  // Infinite past: never.
  // Why nothing newer could be fetched; empty: no problem.
  std::string trouble;

  // Jobs that train, then jobs that wait, then ended jobs, each newest first.
  std::vector<v1::Job> jobs;
  // Kinds of jobs of which older ones were left out: "queued".
  std::vector<std::string> cut;
  std::map<std::string, v1::JobTelemetry> telemetry;  // By job id, for jobs that train.
  std::vector<v1::Node> nodes;
  v1::JobRanks ranks;  // Ranks of the job that is shown alone; the id is empty if none is.
};

// Makes the same from JobService's data, without telemetry: waits and own times are missing.
v1::JobRanks RanksOf(const v1::Job& job);

// Duration of a step in seconds; 0: not known.
double StepSeconds(const TopModel& model, const v1::Job& job);

}  // namespace paceline

#endif  // CLI_TOP_TOP_MODEL_H_
