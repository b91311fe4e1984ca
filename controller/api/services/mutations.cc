#include "controller/api/services/mutations.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/not_leader.h"
#include "controller/metrics/metrics.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr size_t kMaxRequestId = 64;

}  // namespace

uint64_t Fingerprint(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

std::string StableBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);  // Writes the rest when it ends.
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

void Mutations::Once(const std::string& request_id, uint64_t fingerprint, const Answer& answer,
                     const std::function<void(const RequestLog::Entry&)>& repeat,
                     const std::function<void(const ControlLoop::RequestId&)>& mutate) {
  if (request_id.empty() || request_id.size() > kMaxRequestId) {
    answer(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "REQUEST_ID_INVALID",
                     "request_id must have 1 to 64 characters; use a UUID"));
    return;
  }
  switch (control_->requests().Check(request_id, fingerprint)) {
    case RequestLog::Verdict::kNew:
      mutate({request_id, fingerprint});
      return;
    case RequestLog::Verdict::kReused:
      answer(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "REQUEST_ID_REUSED",
                       absl::StrCat("request_id ", request_id,
                                    " was used for another request: take a new one")));
      return;
    case RequestLog::Verdict::kRepeat:
      metrics_->RequestReplayed();
      repeat(control_->requests().Find(request_id));
      return;
  }
}

CommitQueue::Then Mutations::Reply(Answer answer, std::function<grpc::Status()> fill) {
  return [answer = std::move(answer), fill = std::move(fill)](const absl::Status& stored) {
    // The client then asks the next leader, which knows whether it was stored.
    if (absl::IsAborted(stored)) {
      return answer(MakeError(grpc::StatusCode::UNAVAILABLE, kNotLeaderReason,
                              "this controller leads no more: ask the one that does, with the "
                              "same request_id"));
    }
    if (!stored.ok()) {
      return answer(MakeError(grpc::StatusCode::UNAVAILABLE, "STORE_FAILED",
                              "the controller cannot store the change and ends: try again with "
                              "the same request_id when it is back"));
    }
    answer(fill());
  };
}

CommitQueue::Then Mutations::ReplyJob(const JobId& id, v1::Job* reply, const Answer& answer) {
  return Reply(answer, [this, id, reply] {
    const auto job = control_->cluster().jobs().find(id);
    if (job == control_->cluster().jobs().end()) {
      return MakeError(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                       absl::StrCat("job ", id.value(), " is no longer kept"));
    }
    *reply = control_->Describe(job->second);
    return grpc::Status::OK;
  });
}

}  // namespace paceline
