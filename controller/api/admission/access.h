// Checks each call before it reaches its handler: who the caller is, whether its role allows the
// call, and whether it calls too often.
//
//   certificate's URI ─╮
//   or bearer token ───┴─▶ principal ─▶ revoked? ─▶ access_table.h ─▶ rate ─▶ handler (CallerOf)
//                             │             │              │            │
//                             ╰─────────────┴──────────────┴────────────┴─▶ UNAUTHENTICATED,
//                    PERMISSION_DENIED or RESOURCE_EXHAUSTED, a count, a line of the audit record
//
// Only admitted calls count against the rate: refusing one costs the same in any case. Anonymous
// callers have no rate here, because gRPC does not give their address; they may only call methods
// that read no state (access_table.h), and Join, which has its own rate (call_limits.h). gRPC sends
// the code and message of a refusal, but not its details.
//
// A certificate takes precedence over a token. Both are checked anew at each call, so that changed
// tokens, a revocation or an expired certificate take effect from the next call, even on an open
// connection.
//
// Used with TLS only: a controller without TLS is on loopback, where every caller is an admin
// (CallerByWord).
#ifndef CONTROLLER_API_ADMISSION_ACCESS_H_
#define CONTROLLER_API_ADMISSION_ACCESS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "common/tls/certificate.h"
#include "controller/api/admission/access_table.h"
#include "controller/api/admission/caller.h"
#include "controller/api/admission/user_tokens.h"
#include "controller/api/audit/audit.h"
#include "controller/metrics/rpc_metrics.h"

namespace paceline {

// What a call shows about its caller.
struct CallFacts {
  std::string method;                       // "/paceline.v1.JobService/Get".
  std::vector<std::string> uris;            // URIs in the peer's verified certificate.
  std::string certificate;                  // PEM; empty: the peer has shown none.
  std::vector<std::string> authorizations;  // Values of the `authorization` metadata.
};

CallFacts FactsOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                  const grpc::AuthContext& peer);

// Thread-safe functions of common/tls and of the owner of the revocations.
struct Revocations {
  // Returns the validity period of a certificate in PEM.
  std::function<absl::StatusOr<CertificateTimes>(const std::string& pem)> times;
  // Returns an error with the reason if what was issued to the principal at that time is revoked.
  // Tokens have no time of issue; they count as issued in the infinite past.
  std::function<absl::Status(const Principal& principal, absl::Time issued_at)> check;
};

// Admits one more call of a caller that has a role, or returns the refusal. Thread-safe.
using CallAdmission = std::function<grpc::Status(const Principal& caller)>;

// What was decided about a call.
struct AccessVerdict {
  Principal caller;                      // As far as known.
  std::optional<AccessRefusal> refusal;  // None: the call is admitted.
  grpc::Status status;                   // Sent to the client if the call is refused.
};

// Thread-safe. Methods do not block, except for reading a small file.
class Access {
 public:
  // `tokens` may be null: there are none. Both functions of `revocations` may be empty: nothing is
  // revoked. `metrics` and `audit` outlive this.
  Access(std::unique_ptr<UserTokens> tokens, Revocations revocations, CallAdmission admit,
         AccessMetrics* metrics, AuditLog* audit);

  AccessVerdict Judge(const CallFacts& facts, absl::Time now) const;

  // Checks, counts and records a call. Returns UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED
  // for an unknown method, or the error of the admission.
  grpc::Status Check(const CallFacts& facts, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns nobody if the call's certificate or token is not valid.
  Principal FindCaller(const grpc::ServerContextBase& context) const;

  // To be passed to SetAuthMetadataProcessor. This outlives the server.
  std::shared_ptr<grpc::AuthMetadataProcessor> NewProcessor();

 private:
  // Returns nobody if the call shows no identity; an error, with `refusal` set, if it shows a bad
  // one.
  absl::StatusOr<Principal> Identify(const CallFacts& facts, absl::Time now,
                                     AccessRefusal* refusal) const;
  absl::StatusOr<Principal> OfCertificate(const CallFacts& facts, absl::Time now,
                                          AccessRefusal* refusal) const;
  absl::StatusOr<Principal> OfToken(const CallFacts& facts, absl::Time now,
                                    AccessRefusal* refusal) const;
  absl::Status CheckRevoked(const Principal& principal, absl::Time issued_at,
                            AccessRefusal* refusal) const;

  const std::unique_ptr<UserTokens> tokens_;
  const Revocations revocations_;
  const CallAdmission admit_;
  AccessMetrics* const metrics_;
  AuditLog* const audit_;

  absl::Mutex mutex_;
  AuditBudget budget_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_ACCESS_H_
