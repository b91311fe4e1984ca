// paceline cluster status and paceline queue list.
#include "cli/verbs/cluster/cluster.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_table.h"
#include "cli/view/job/job_text.h"
#include "proto/identity.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

int ShowCluster(Program& program) {
  ClusterFacts facts;
  const grpc::Status status = FetchCluster(program, &facts);
  if (!status.ok()) return program.Fail(status);
  v1::WhoAmIResponse own;
  if (program.client().Call(methods::kIdentityWhoAmI, {}, &own).ok() && own.plaintext()) {
    program.Note("the controller speaks plain text: everybody on its machine is an administrator");
  }
  if (program.json()) {
    program.PrintJsonText(ClusterJson(facts, absl::Now()));
  } else {
    program.out() << ClusterPage(facts, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

// Ids of the waiting and of the training jobs, by queue, and the ranks of the latter.
std::string QueuesAsJson(const std::vector<v1::Job>& jobs) {
  std::map<std::string, std::vector<const v1::Job*>> queues;
  for (const v1::Job& job : jobs) queues[QueueOf(job)].push_back(&job);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, members] : queues) {
    nlohmann::ordered_json queue = {{"queue", name},
                                    {"waiting", nlohmann::ordered_json::array()},
                                    {"training", nlohmann::ordered_json::array()}};
    int64_t ranks = 0;
    int64_t wanted = 0;
    for (const v1::Job* job : members) {
      const bool waits = job->state() == v1::QUEUED;
      queue[waits ? "waiting" : "training"].push_back(job->id());
      ranks += waits ? 0 : RanksNow(*job);
      wanted += waits ? 0 : job->spec().ranks();
    }
    queue["ranks"] = ranks;
    queue["ranks_wanted"] = wanted;
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
    for (const auto& [name, count] : queues) program.out() << SanitizeLine(name) << "\n";
  } else if (jobs.empty()) {
    program.Note("no job waits or trains");
  } else {
    program.out() << QueueTable(jobs, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

grpc::Status FetchActiveJobs(Program& program, std::vector<v1::Job>* jobs) {
  v1::ListJobsRequest request;
  request.set_page_size(kMostPerPage);
  for (const v1::JobState state :
       {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}) {
    request.add_states(state);
  }
  do {
    v1::ListJobsResponse page;
    const grpc::Status status = program.client().Call(methods::kJobList, request, &page);
    if (!status.ok()) return status;
    jobs->insert(jobs->end(), page.jobs().begin(), page.jobs().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

grpc::Status FetchAllNodes(Program& program, std::vector<v1::Node>* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(kMostPerPage);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().Call(methods::kNodeList, request, &page);
    if (!status.ok()) return status;
    nodes->insert(nodes->end(), page.nodes().begin(), page.nodes().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

grpc::Status FetchCluster(Program& program, ClusterFacts* facts) {
  facts->server = program.ServerText();
  grpc::Status status = FetchAllNodes(program, &facts->nodes);
  if (status.ok()) status = FetchActiveJobs(program, &facts->jobs);
  if (status.ok())
    status = program.client().Call(methods::kAutomationGetStatus, {}, &facts->automation);
  return status;
}

void AddClusterStatus(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand(
      "status", "Show nodes, slots, jobs and the automation at a glance, and what needs attention");
  Run(*verb, program, ShowCluster);
}

void AddQueueList(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand(
      "list", "List the queues that have jobs: how many wait and train, and what the oldest lacks");
  Run(*verb, program, ListQueues);
}

}  // namespace paceline
