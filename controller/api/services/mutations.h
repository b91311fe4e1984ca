// Answers a client's mutation once, when what it changed is durable. A repeat of the request gets
// the first answer again.
//
// Runs on the loop.
#ifndef CONTROLLER_API_SERVICES_MUTATIONS_H_
#define CONTROLLER_API_SERVICES_MUTATIONS_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <string>

#include "controller/loop/control_loop.h"
#include "proto/job.pb.h"

namespace paceline {

class ControllerMetrics;

// Tells a repeated request from a different one with the same id. FNV-1a: it must be the same in
// every build, since it is stored.
uint64_t Fingerprint(const std::string& bytes);

// The message's bytes, the same for equal messages: SerializeAsString writes maps in any order.
std::string StableBytes(const google::protobuf::Message& message);

class Mutations {
 public:
  using Answer = std::function<void(grpc::Status)>;

  // Both outlive this.
  Mutations(ControlLoop* control, ControllerMetrics* metrics)
      : control_(control), metrics_(metrics) {}

  // Runs `mutate` for a new request id; runs `repeat` with the remembered request for an id that
  // was answered; else answers that the id cannot be used.
  void Once(const std::string& request_id, uint64_t fingerprint, const Answer& answer,
            const std::function<void(const RequestLog::Entry&)>& repeat,
            const std::function<void(const ControlLoop::RequestId&)>& mutate);

  // Answers with the result of `fill` once all changes so far are durable.
  CommitQueue::Then Reply(Answer answer, std::function<grpc::Status()> fill);
  // The same, filling in the job.
  CommitQueue::Then ReplyJob(const JobId& id, v1::Job* reply, const Answer& answer);

 private:
  ControlLoop* const control_;
  ControllerMetrics* const metrics_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_MUTATIONS_H_
