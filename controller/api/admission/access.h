// The check of each call before it reaches its handler: who asks, whether its role may, and whether
// it has asked too often.
//
//   certificate's URI ─╮
//   or bearer token ───┴─▶ principal ─▶ revoked? ─▶ access_table.h ─▶ rate ─▶ handler (CallerOf)
//                             │             │              │            │
//                             ╰─────────────┴──────────────┴────────────┴─▶ UNAUTHENTICATED,
//                    PERMISSION_DENIED or RESOURCE_EXHAUSTED, a count, a line of the audit record
//
// Only calls that are let in count for the rate: to refuse one costs the same either way. Callers
// whom nobody knows have none here, where gRPC does not tell their address, and may call what reads
// no state (access_table.h), and Join, which has a rate of its own (call_limits.h). gRPC sends a
// refusal's code and message, and leaves its details out.
//
// A certificate goes before a token. What is shown is judged anew with each call, so a change of
// the tokens, a revocation or a certificate's end counts from the next call on, also on a
// connection that is open.
//
// With TLS only: a controller without it is on loopback, where each caller is an admin
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

// What a call shows of its caller.
struct CallFacts {
  std::string method;                       // "/paceline.v1.JobService/Get".
  std::vector<std::string> uris;            // Of the peer's certificate, which was verified.
  std::string certificate;                  // PEM; empty: the peer has shown none.
  std::vector<std::string> authorizations;  // Metadata of that name.
};

CallFacts FactsOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                  const grpc::AuthContext& peer);

// Thread-safe functions, of common/tls and of who keeps the revocations.
struct Revocations {
  // From when to when the certificate in PEM holds.
  std::function<absl::StatusOr<CertificateTimes>(const std::string& pem)> times;
  // Not OK, and why: what was issued to the principal at that time is revoked. A token has no time
  // of its issue, and counts as issued in the infinite past.
  std::function<absl::Status(const Principal& principal, absl::Time issued_at)> check;
};

// OK, or the refusal of one call more of a caller that has a role. From any thread.
using CallAdmission = std::function<grpc::Status(const Principal& caller)>;

// What becomes of a call.
struct AccessVerdict {
  Principal caller;                      // As far as it is known.
  std::optional<AccessRefusal> refusal;  // None: it is let in.
  grpc::Status status;                   // For the client, when it is refused.
};

// Thread-safe. No method waits for anything but the reading of a small file.
class Access {
 public:
  // `tokens` may be null: there are none. So may the functions of `revocations`, both: nothing is
  // revoked. `metrics` and `audit` outlive this.
  Access(std::unique_ptr<UserTokens> tokens, Revocations revocations, CallAdmission admit,
         AccessMetrics* metrics, AuditLog* audit);

  AccessVerdict Judge(const CallFacts& facts, absl::Time now) const;

  // Judges, counts and records. UNAUTHENTICATED, PERMISSION_DENIED; UNIMPLEMENTED for a method that
  // there is not; what the admission says.
  grpc::Status Check(const CallFacts& facts, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody when what the call shows is not good.
  Principal FindCaller(const grpc::ServerContextBase& context) const;

  // For SetAuthMetadataProcessor. This outlives the server.
  std::shared_ptr<grpc::AuthMetadataProcessor> NewProcessor();

 private:
  // Nobody: nothing is shown. Not OK, with `refusal`: what is shown is no good.
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
