#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "bench/stragglers/history.h"
#include "bench/stragglers/trace.h"

namespace paceline::detect {
namespace {

using nlohmann::json;

json LabelOf(const Fault& fault, const std::vector<DetectorRank>& ranks, int of_stage) {
  json workers = json::array();
  std::set<int> nodes;
  for (const int rank : fault.ranks) {
    workers.push_back({{"dp", rank % of_stage}, {"stage", rank / of_stage}});
    nodes.insert(ranks[static_cast<size_t>(rank)].node);
  }
  return {{"class", fault.lasting ? "persistent" : "transient"},
          {"scope", kScopeNames[static_cast<size_t>(fault.scope)]},
          {"shape", kShapeNames[static_cast<size_t>(fault.shape)]},
          {"cause", kFaultCauseNames[static_cast<size_t>(fault.cause)]},
          {"factor", fault.factor},
          {"begin", fault.begin},
          {"end", fault.end},
          {"nodes", nodes},
          {"workers", workers}};
}

}  // namespace

void WriteHistory(const HistorySpec& spec, uint64_t seed, std::ostream& csv) {
  History history(spec, seed);
  const int of_stage = spec.ranks / spec.stages;
  json faults = json::array();
  for (const Fault& fault : history.faults()) {
    faults.push_back(LabelOf(fault, history.ranks(), of_stage));
  }
  csv << "step,dp,stage,fwd_s,bwd_s,wall_s,data_wait_s,workload,node,masked,generation\n"
      << "# "
      << json{{"labels", {{"spec", SpecText(spec)}, {"seed", seed}, {"faults", faults}}}}.dump()
      << '\n';
  std::vector<StepSample> arrivals;
  bool restarted = false;
  int generation = 0;
  for (bool more = true; more;) {
    more = history.Next(arrivals, restarted);
    if (restarted) ++generation;
    for (const StepSample& sample : arrivals) {
      csv << absl::StreamFormat("%d,%d,%d,%.6f,%.6f,%.6f,%.6f,%.6f,%d,%d,%d\n", sample.step,
                                sample.rank % of_stage, sample.rank / of_stage, sample.forward_s,
                                sample.backward_s, sample.wall_s, sample.data_wait_s,
                                sample.workload,
                                history.ranks()[static_cast<size_t>(sample.rank)].node,
                                sample.masked ? 1 : 0, generation);
    }
  }
}

}  // namespace paceline::detect
