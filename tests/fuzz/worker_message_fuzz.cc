// Whatever a worker sends, the controller takes it in as it always does, and all that it then
// shows, stores and plans can be written and read.
//
// The input: messages of a session, each after its length in two bytes, of a node "n" with a place
// for "job-1", which is there from the beginning.
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/job_spec/job_spec.h"
#include "controller/core/cluster.h"
#include "controller/core/dropped_totals.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/stragglers.h"
#include "controller/rpc/convert.h"
#include "controller/rpc/convert_node.h"
#include "controller/rpc/convert_strategy.h"
#include "controller/rpc/worker_identity.h"
#include "controller/rpc/worker_messages.h"
#include "proto/worker.pb.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

JobRequest Request() {
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
  FillDefaults(&spec);
  return FromProto(JobId("job-1"), spec);
}

// As ControlLoop and WorkerSessions, without IO.
class Controller {
 public:
  Controller() {
    v1::Hello hello;
    hello.set_node("n");
    hello.set_slots(1);
    Run(ConnectedBy(hello));
    Run(JobSubmitted{Request()});
  }

  void Take(v1::WorkerMessage message) {
    LimitMessage(&message);
    const bool greets = message.kind_case() == v1::WorkerMessage::kHello;
    if (greets && !CheckHello(message.hello()).ok()) return;
    const NodeName node(greets ? message.hello().node() : "n");
    if (!CheckMessage(cluster_, node, message).ok()) return;
    switch (message.kind_case()) {
      case v1::WorkerMessage::kHello:
        dropped_.Begin(node, message.hello().daemon_uid(), message.hello().dropped_confirmed());
        Run(ConnectedBy(message.hello()));
        break;
      case v1::WorkerMessage::kReport:
        Run(ReportedBy(node, message.report()));
        break;
      case v1::WorkerMessage::kSteps: {
        std::vector<TrainerSteps> own;
        PACELINE_EXPECT(CheckSteps(cluster_, node, message.steps(), &own).ok());
        PACELINE_EXPECT(dropped_.Take(node, message.steps().dropped()) >= 0);
        for (const auto& [id, batch] : own) {
          const std::vector<StepTimes> steps = StepsOf(*batch);
          steps_.TakeSteps(cluster_, node, id, steps);
          StragglerActions decided = stragglers_.TakeSteps(cluster_, node, id, steps, Now());
          Actions actions;
          CarryOut(cluster_, Following(), Now(), actions, decided);
        }
        break;
      }
      default:
        return;
    }
    Look();
  }

 private:
  Moment Now() const {
    return {absl::UnixEpoch() + absl::Seconds(time_s_),
            absl::FromUnixSeconds(1'700'000'000 + time_s_)};
  }

  std::function<StragglerActions(const Actions&)> Following() {
    return [this](const Actions& stepped) { return stragglers_.Follow(cluster_, stepped, Now()); };
  }

  void Run(const Event& event) {
    ++time_s_;
    Actions actions = cluster_.Step(event, Now());
    StragglerActions decided = stragglers_.Follow(cluster_, actions, Now());
    CarryOut(cluster_, Following(), Now(), actions, decided);
    steps_.Follow(cluster_, actions, Now());
    cluster_.Step(TimePassed{}, Now());
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

  int64_t time_s_ = 0;
  Cluster cluster_{Cluster::Options()};
  Stragglers stragglers_{StragglerOptions(), WithLadder, StrategyOf};
  StepHistory steps_;
  DroppedTotals dropped_;
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
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
