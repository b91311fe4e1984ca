// What `paceline top` shows: the messages of the API as they were fetched last.
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
  absl::Time fetched = absl::InfinitePast();  // Infinite: nothing was fetched yet.
  // Why nothing newer could be; empty: it could.
  std::string trouble;

  // Those that train, those that wait, those that have ended, each the newest first.
  std::vector<v1::Job> jobs;
  // Kinds of jobs of which older ones were left out: "queued".
  std::vector<std::string> cut;
  std::map<std::string, v1::JobTelemetry> telemetry;  // By job id; of those that train.
  std::vector<v1::Node> nodes;
  v1::JobRanks ranks;  // Of the job that is shown alone; without an id: of none.
};

// The same from what JobService tells, where there is no telemetry: without waits and own times.
v1::JobRanks RanksOf(const v1::Job& job);

// Seconds of a step; 0: not known.
double StepSeconds(const TopModel& model, const v1::Job& job);

}  // namespace paceline

#endif  // CLI_TOP_TOP_MODEL_H_
