// paceline queue list
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "cli/text/neutral.h"
#include "cli/verbs/cluster_facts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_table.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

// Ids of the jobs that wait and of those that train, by queue.
std::string QueuesAsJson(const std::vector<v1::Job>& jobs) {
  std::map<std::string, std::vector<const v1::Job*>> queues;
  for (const v1::Job& job : jobs) queues[QueueOf(job)].push_back(&job);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, members] : queues) {
    nlohmann::ordered_json queue = {{"queue", name},
                                    {"waiting", nlohmann::ordered_json::array()},
                                    {"training", nlohmann::ordered_json::array()}};
    for (const v1::Job* job : members) {
      queue[job->state() == v1::QUEUED ? "waiting" : "training"].push_back(job->id());
    }
    list.push_back(queue);
  }
  return nlohmann::ordered_json{{"queues", list}}.dump(1);
}

int ListQueues(Program& program) {
  std::vector<v1::Job> jobs;
  const grpc::Status status = FetchActiveJobs(program, &jobs);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJsonText(QueuesAsJson(jobs));
  } else if (program.names()) {
    std::map<std::string, int> queues;
    for (const v1::Job& job : jobs) ++queues[QueueOf(job)];
    for (const auto& [name, count] : queues) program.out() << NeutralLine(name) << "\n";
  } else if (jobs.empty()) {
    program.Note("no job waits or trains");
  } else {
    program.out() << QueueTable(jobs, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddQueueList(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand(
      "list", "List the queues that have jobs: how many wait and train, and what the oldest lacks");
  verb->callback([&program] { program.action = [&program] { return ListQueues(program); }; });
}

}  // namespace paceline
