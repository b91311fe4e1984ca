// The audit record: one line of JSON for each call of the API that asks for a change, whatever
// came of it. Which calls these are, their messages say: those with a request_id, or that ask for a
// certificate.
//
//   {"time":"2026-03-01T12:00:00.123Z","method":"/paceline.v1.NodeService/Drain",
//    "peer":"ipv4:10.0.0.5:41234","user":"ann","role":"operator","code":"OK","took_ms":3.1,
//    "request":{"name":"w1","request_id":"5e0c...","reason":"its fan is loud","owner":"ann"}}
//
// "message" tells why a call was refused. Of the request the plain fields are kept, cut after some
// length, and of a job's spec its name: never an environment, which may hold secrets, nor a token.
//
// "user" and "role" are those of the caller's certificate or token. Without TLS, on loopback,
// "user" is what the caller says of itself (common/user_metadata.h), and there is none when it says
// nothing. A request's owner is a claim, which nothing proves.
//
// So has each call that was not let in (access.h), of any method, a line: without a peer and with
// an empty request, which nobody has read.
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
  std::string peer;  // As gRPC names it; empty: not known.
  Principal caller;
  std::string request;  // JSON, see AuditedRequest.
  grpc::Status status;
  absl::Duration took;
};

// Whether a call with this request asks for a change.
bool IsAudited(const google::protobuf::Descriptor& request);

// What is kept of the request, as JSON.
std::string AuditedRequest(const google::protobuf::Message& request);

// Without a newline at its end.
std::string AuditLine(const AuditRecord& record);

// Whether anybody could cause as many such records as they please: of callers whom nobody knows,
// and of those who ask more often than they may. They are within AuditBudget.
bool IsCheap(const AuditRecord& record);

// How many refused calls are recorded: so many a second, so that nobody can fill the record and so
// push others' lines out; and as many again of callers who are known, whose lines strangers cannot
// keep out. All are counted (metrics). Thread-compatible.
class AuditBudget {
 public:
  static constexpr int kRefusalsPerSecond = 20;

  // Whether one more of the caller is recorded.
  bool Take(const Principal& caller, absl::Time now);

 private:
  int64_t second_ = 0;
  int known_ = 0;
  int strangers_ = 0;
};

// The file of the records. When it has kMaxBytes it is renamed to NAME.1.EXTENSION, and so on up to
// kOldFiles of them. Thread-safe.
class AuditLog {
 public:
  static constexpr int64_t kMaxBytes = 64 << 20;
  static constexpr int kOldFiles = 8;

  // Appends to `path`. FailedPrecondition when it cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);

  virtual ~AuditLog() = default;

  // A line that cannot be written is told in the daemon's log, and lost.
  virtual void Write(const std::string& line) = 0;
};

// For grpc::ServerBuilder. `log` outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeAuditInterceptors(
    AuditLog* log);

}  // namespace paceline

#endif  // CONTROLLER_API_AUDIT_AUDIT_H_
