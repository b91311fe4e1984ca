// The audit record: one line of JSON for each API call that asks for a change, whatever the
// outcome. These are the calls whose request has a request_id, or asks for a certificate.
//
//   {"time":"2026-03-01T12:00:00.123Z","method":"/paceline.v1.NodeService/Drain",
//    "peer":"ipv4:10.0.0.5:41234","user":"ann","role":"operator","code":"OK","took_ms":3.1,
//    "request":{"name":"w1","request_id":"5e0c...","reason":"its fan is loud","owner":"ann"}}
//
// "message" says why a call was refused. Of the request only plain fields are kept, cut to some
// length, and of a job's spec its name: never an environment, which may hold secrets, or a token.
//
// "user" and "role" come from the caller's certificate or token. Without TLS, on loopback, "user"
// is what the caller claims (common/user_metadata.h), and missing if it claims nothing. The owner
// in a request is an unproven claim.
//
// Calls that were not admitted (access.h) are recorded too, whatever the method: without a peer,
// and with an empty request, since nobody has read it.
#ifndef CONTROLLER_API_AUDIT_AUDIT_H_
#define CONTROLLER_API_AUDIT_AUDIT_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"

namespace paceline {

struct AuditRecord {
  absl::Time time;
  std::string method;
  std::string peer;  // In gRPC's form; empty: not known.
  Principal caller;
  std::string request;  // JSON of AuditedRequest.
  grpc::Status status;
  absl::Duration took;
};

// Whether a call with this request asks for a change.
bool IsAudited(const google::protobuf::Descriptor& request);

// The parts of the request that are kept, as JSON.
std::string AuditedRequest(const google::protobuf::Message& request);

// Has no newline at the end.
std::string AuditLine(const AuditRecord& record);

// Whether anybody could cause any number of such records: refusals of anonymous callers, and of
// callers above their rate. AuditBudget limits these.
bool IsCheap(const AuditRecord& record);

// Limits how many refused calls are recorded per second, so that nobody can fill the record and
// push out others' lines. Known callers have a separate budget, which strangers cannot use up.
// Metrics count all refusals. Thread-compatible.
class AuditBudget {
 public:
  static constexpr int kRefusalsPerSecond = 20;

  // Whether to record one more refusal of the caller.
  bool Take(const Principal& caller, absl::Time now);

 private:
  int64_t second_ = 0;
  int known_ = 0;
  int strangers_ = 0;
};

// The file of records. At kMaxBytes it is renamed to NAME.1.EXTENSION; up to kOldFiles old ones are
// kept. Thread-safe.
class AuditLog {
 public:
  static constexpr int64_t kMaxBytes = 64 << 20;
  static constexpr int kOldFiles = 8;

  // Appends to `path`. FailedPrecondition when it cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);

  virtual ~AuditLog() = default;

  // A line that cannot be written is lost; the daemon's log says so.
  virtual void Write(const std::string& line) = 0;
};

// For grpc::ServerBuilder. `log` outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeAuditInterceptors(
    AuditLog* log);

}  // namespace paceline

#endif  // CONTROLLER_API_AUDIT_AUDIT_H_
