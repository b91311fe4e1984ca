// The nodes and the automation of the fake controller (fake_controller.h).
//
// A change is answered with the node that it names, in the new state. Watches are scripts, one per
// call: after its events the connection is lost if another script is left; otherwise the stream
// stays open until the client goes or Stop.
//
// Thread-safe.
#ifndef CLI_TESTING_FAKE_NODES_H_
#define CLI_TESTING_FAKE_NODES_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status.h"
#include "proto/node.pb.h"

namespace grpc {
class ServerBuilder;
}

namespace paceline {

class FakeNodes {
 public:
  FakeNodes();
  ~FakeNodes();
  void RegisterWith(grpc::ServerBuilder& builder);

  void SetNodes(std::vector<v1::Node> nodes) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetHistory(v1::NodeHistory history) ABSL_LOCKS_EXCLUDED(mutex_);
  // Effects that each drain returns.
  void SetEffects(std::vector<v1::DrainEffect> effects) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddWatch(std::vector<v1::NodeEvent> events) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the last watch has sent all its events and stays open.
  void OnWatchIdle(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the next change fail with this status.
  void FailNext(grpc::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Changes in order: "Cordon name: \"a\" request_id: ...".
  std::vector<std::string> requests() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends open streams.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The service for gRPC.
  class Calls;

  // Records the change and answers it.
  grpc::Status Change(const std::string& verb, const google::protobuf::Message& request,
                      const std::string& name, v1::NodeState state, const std::string& reason,
                      v1::Node* node) ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status Find(const std::string& name, v1::Node* node) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Record(const std::string& verb, const google::protobuf::Message& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::Node> nodes_ ABSL_GUARDED_BY(mutex_);
  v1::NodeHistory history_ ABSL_GUARDED_BY(mutex_);
  v1::AutomationStatus automation_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::DrainEffect> effects_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::vector<v1::NodeEvent>> watches_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_watch_idle_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_NODES_H_
