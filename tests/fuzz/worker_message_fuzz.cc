// Whatever a worker sends, the controller handles it in the usual way, and all that it then
// shows, stores and plans can be written and read. Jobs, nodes and plans are checked after each
// message; the stored state, measurements and logs after the last one.
//
// The input is a list of messages, each after its length in two bytes. They come from node "n",
// which has a slot for "job-1" and exists from the beginning, or, after a hello, from the node that
// sent it. "job-2" waits for four more slots; with four more nodes it has enough ranks for a slow
// one to be found.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job_spec/job_spec.h"
#include "controller/api/admission/worker_identity.h"
#include "controller/api/admission/worker_messages.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_histories.h"
#include "controller/core/history/transition_finder.h"
#include "controller/core/requests/dropped_totals.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/straggler_facts.h"
#include "controller/core/stragglers/job/stragglers.h"
#include "controller/store/meta_keys.h"
#include "controller/store/records.h"
#include "controller/store/testing/memory_store.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"
#include "controller/wire/convert_plan.h"
#include "controller/wire/convert_straggler.h"
#include "controller/wire/convert_telemetry.h"
#include "proto/worker.pb.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_data()->set_train("/data/train.shard");
  spec.set_steps(1000);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_optimizer()->set_learning_rate(0.1);
  spec.mutable_checkpoint()->set_directory("/checkpoints");
  spec.mutable_checkpoint()->set_every_steps(10);
  spec.set_max_restarts(2);
  return spec;
}

JobRequest OneRank() {
  v1::JobSpec spec = Spec();
  FillDefaults(&spec);
  return FromProto(JobId("job-1"), spec);
}

JobRequest FourRanks() {
  v1::JobSpec spec = Spec();
  spec.set_name("watched");
  spec.set_ranks(4);
  spec.mutable_recovery()->set_max_failures(3);
  spec.mutable_stragglers()->set_mode(v1::STRAGGLER_MODE_AUTO);
  FillDefaults(&spec);
  return FromProto(JobId("job-2"), spec);
}

// Options that decide quickly, because inputs are short.
StragglerOptions Impatient() {
  StragglerOptions options;
  options.detector.warm_up_steps = 5;
  options.detector.persistent_steps = 20;
  return options;
}

// Does what ControlLoop and WorkerSessions do, without IO.
class Controller {
 public:
  Controller() {
    v1::Hello hello;
    hello.set_node("n");
    hello.set_slots(1);
    Run(ConnectedBy(hello));
    Run(JobSubmitted{OneRank()});
    Run(JobSubmitted{FourRanks()});
  }

  // Starts with the state that another controller has stored.
  Controller(StoredState state, int64_t time_s) : time_s_(time_s) {
    cluster_.Restore(std::move(state.jobs), std::move(state.nodes), Now(),
                     std::move(state.automation));
    finder_.Restore(cluster_, state.decisions);
    histories_.Restore(std::move(state.events), cluster_);
    Carry({}, stragglers_.Restore(std::move(state.decisions), cluster_, Now()));
    Run(TimePassed{});
    Look();
  }

  void Take(v1::WorkerMessage message) {
    LimitMessage(&message);
    const bool greets = message.kind_case() == v1::WorkerMessage::kHello;
    if (greets && !CheckHello(message.hello()).ok()) return;
    const NodeName node = greets ? NodeName(message.hello().node()) : node_;
    if (!CheckMessage(cluster_, node, message).ok()) return;
    node_ = node;
    switch (message.kind_case()) {
      case v1::WorkerMessage::kHello:
        dropped_.Begin(node, message.hello().daemon_uid(), message.hello().dropped_confirmed());
        Run(ConnectedBy(message.hello()));
        break;
      case v1::WorkerMessage::kReport:
        Run(ReportedBy(node, message.report()));
        break;
      case v1::WorkerMessage::kSteps:
        TakeSteps(message.steps());
        break;
      case v1::WorkerMessage::kLog:
        PACELINE_EXPECT(message.log().error().size() <= kMaxReportText);
        CheckCopy(message);
        log_ = message.log();
        return;
      case v1::WorkerMessage::kCodeRequest:
      case v1::WorkerMessage::KIND_NOT_SET:
        return;
    }
    Look();
  }

  // Checks what need not be checked after each message.
  void LookAtRest() const {
    LookAtMeasured();
    LookAtLog();
    LookAtStored();
  }

 private:
  Moment Now() const {
    return {absl::UnixEpoch() + absl::Seconds(time_s_),
            absl::FromUnixSeconds(1'700'000'000 + time_s_)};
  }

  std::function<StragglerActions(const Actions&)> Following() {
    return [this](const Actions& stepped) { return stragglers_.Follow(cluster_, stepped, Now()); };
  }

  // Like the functions of the same names in ControlLoop; so are those below.
  void Carry(Actions actions, StragglerActions decided) {
    CarryOut(cluster_, Following(), Now(), actions, decided);
    steps_.Follow(cluster_, actions, Now());
    Report(finder_.Look(cluster_, stragglers_, actions, decided), actions.delete_jobs);
  }

  void Report(const JobTransitions& happened, const std::set<JobId>& deleted) {
    histories_.Release(histories_.Take(cluster_, happened, deleted, Now().wall));
  }

  void Apply(const Event& event) {
    Actions actions = cluster_.Step(event, Now());
    StragglerActions decided = stragglers_.Follow(cluster_, actions, Now());
    Carry(std::move(actions), std::move(decided));
  }

  void Run(const Event& event) {
    ++time_s_;
    Apply(event);
    Apply(TimePassed{});
    Carry({}, stragglers_.Tick(cluster_, Now()));
  }

  void TakeSteps(const v1::NodeSteps& reported) {
    std::vector<TrainerSteps> own;
    PACELINE_EXPECT(CheckSteps(cluster_, node_, reported, &own).ok());
    PACELINE_EXPECT(dropped_.Take(node_, reported.dropped()) >= 0);
    for (const auto& [id, batch] : own) {
      const std::vector<StepTimes> steps = StepsOf(*batch);
      steps_.TakeSteps(cluster_, node_, id, steps);
      StragglerActions decided = stragglers_.TakeSteps(cluster_, node_, id, steps, Now());
      if (!decided.empty()) {
        Carry({}, std::move(decided));
      } else if (finder_.HasNewVerdicts(id.job, stragglers_)) {
        Report(finder_.LookAtVerdicts(id.job, stragglers_), {});
      }
    }
  }

  template <typename Message>
  static void CheckCopy(const Message& message) {
    Message copy;
    PACELINE_EXPECT(copy.ParseFromString(message.SerializeAsString()));
  }

  void Look() const {
    for (const auto& [id, job] : cluster_.jobs()) CheckCopy(ToProto(job, Now().wall));
    for (const auto& [name, node] : cluster_.nodes()) {
      CheckCopy(ToProto(node, cluster_));
      CheckCopy(ToProto(cluster_.PlanFor(name), cluster_.TasksFor(name)));
    }
  }

  // Checks what people see of the steps.
  void LookAtMeasured() const {
    for (const auto& [id, job] : cluster_.jobs()) {
      const MeasuredJob* measured = steps_.Find(id);
      const JobStragglers* stragglers = stragglers_.Find(id);
      CheckCopy(DescribeTelemetry(job, measured, stragglers));
      CheckCopy(DescribeRanks(job, measured, stragglers, /*slowest=*/0));
      CheckCopy(DescribeRanks(job, measured, stragglers, /*slowest=*/2));
      CheckCopy(DescribeSteps(job, measured, /*steps=*/0, kDefaultStepRows));
      CheckCopy(DescribeSteps(job, measured, /*steps=*/7, /*rows=*/2));
      CheckCopy(DescribeSeries(job, measured, absl::InfinitePast()));
      CheckCopy(ToProto(ViewJob(cluster_, job), stragglers));
    }
  }

  // Checks the last part of a log after padding it beyond the size limit, which no input reaches.
  void LookAtLog() const {
    v1::WorkerMessage message;
    v1::LogData& log = *message.mutable_log();
    log = log_;
    if (!log.data().empty()) {
      while (log.data().size() <= kMaxLogPart) log.mutable_data()->append(log_.data());
      LimitMessage(&message);
      PACELINE_EXPECT(log.data().size() == kMaxLogPart && !log.end());
    }
    CheckCopy(message);
  }

  WriteBatch Stored() const {
    WriteBatch batch;
    batch.puts[kClusterIdKey] = "cluster";  // Without, a random one would be made.
    batch.puts[kAutomationKey] = EncodeAutomation(cluster_.automation());
    for (const auto& [name, node] : cluster_.nodes()) {
      batch.puts[NodeKey(name)] = EncodeNode(node, cluster_);
    }
    for (const auto& [id, job] : cluster_.jobs()) {
      batch.puts[JobKey(id)] = EncodeJob(job);
      const EventHistory* history = histories_.Find(id);
      PACELINE_EXPECT(history != nullptr && history->is_released());
      for (const auto& [number, event] : history->events()) {
        batch.puts[EventKey(id, number)] = EncodeEvent(event);
      }
      const JobStragglers* stragglers = stragglers_.Find(id);
      if (stragglers == nullptr) continue;
      for (const RemedyDecision& decision : stragglers->policy().decisions()) {
        batch.puts[DecisionKey(id, decision.id)] = EncodeDecision(decision);
      }
    }
    return batch;
  }

  // A controller that reads the stored state has as many records of each kind, and can continue.
  void LookAtStored() const {
    const WriteBatch batch = Stored();
    MemoryStore store;
    PACELINE_EXPECT(store.Commit(batch).ok());
    absl::StatusOr<StoredState> state = LoadState(store);
    PACELINE_EXPECT(state.ok());
    size_t records = 2;  // The cluster's id and the automation.
    for (const Job& job : state->jobs) CheckStored(job);
    records += state->jobs.size();
    for (const Node& node : state->nodes) {
      PACELINE_EXPECT(cluster_.nodes().count(node.facts.name) == 1);
    }
    records += state->nodes.size();
    for (const auto& [id, decisions] : state->decisions) {
      for (const RemedyDecision& decision : decisions) CheckStored(id, decision);
      records += decisions.size();
    }
    for (const auto& [id, events] : state->events) {
      for (const JobLifeEvent& event : events) CheckStored(id, event);
      records += events.size();
    }
    PACELINE_EXPECT(records == batch.puts.size());
    const Controller next(*std::move(state), time_s_ + 1);
  }

  void CheckStored(const Job& job) const {
    const Job* known = cluster_.FindJob(job.request.id);
    PACELINE_EXPECT(known != nullptr);
    PACELINE_EXPECT(job.state == known->state && job.reason == known->reason);
    PACELINE_EXPECT(job.ranks.size() == known->ranks.size());
  }

  void CheckStored(const JobId& id, const RemedyDecision& decision) const {
    const RemedyDecision* known = stragglers_.Find(id)->policy().Find(decision.id);
    PACELINE_EXPECT(known != nullptr);
    PACELINE_EXPECT(decision.state == known->state && decision.reason == known->reason);
  }

  void CheckStored(const JobId& id, const JobLifeEvent& event) const {
    const JobLifeEvent* known = histories_.Find(id)->Find(event.id);
    PACELINE_EXPECT(known != nullptr);
    PACELINE_EXPECT(event.kind == known->kind && event.what == known->what);
  }

  int64_t time_s_ = 0;
  NodeName node_{"n"};  // Sender of the messages.
  v1::LogData log_;     // The last log of them.
  Cluster cluster_{Cluster::Options()};
  Stragglers stragglers_{Impatient(), WithLadder, StrategyOf};
  StepHistory steps_;
  DroppedTotals dropped_;
  TransitionFinder finder_;
  JobHistories histories_;
};

void Read(absl::string_view contents) {
  Controller controller;
  while (contents.size() >= 2) {
    const size_t size = static_cast<unsigned char>(contents[0]) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(contents[1]));
    const absl::string_view bytes = contents.substr(2, size);
    contents.remove_prefix(2 + bytes.size());
    v1::WorkerMessage message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      controller.Take(std::move(message));
    }
  }
  controller.LookAtRest();
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
