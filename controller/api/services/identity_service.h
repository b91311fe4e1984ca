// IdentityService: proto/identity.proto. Certificates are signed, and tokens and revocations kept,
// on the loop; an answer is sent once its effects are durable.
#ifndef CONTROLLER_API_SERVICES_IDENTITY_SERVICE_H_
#define CONTROLLER_API_SERVICES_IDENTITY_SERVICE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/identity/principal.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/mutations.h"
#include "controller/core/identity/identities.h"
#include "controller/loop/control_loop.h"
#include "proto/identity.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

// Returns the certificate of the call's connection; none: plain text, or the client has none.
std::optional<Certificate> PeerCertificate(const grpc::ServerContextBase& context);

class IdentityService : public v1::IdentityService::CallbackService {
 public:
  struct Options {
    std::optional<CertificateAuthority> authority = {};  // None: nobody joins here.
    absl::Duration worker_life = kWorkerLife;
    bool plaintext = false;
    // Called when a principal is revoked, with a text that says so. On the loop.
    std::function<void(const Principal&, const std::string&)> revoked = {};
  };

  // All pointers outlive this.
  IdentityService(EventLoop* loop, ControlLoop* control, ControllerMetrics* metrics,
                  CallLimits* limits, Identities identities, Options options);

  // Returns Unauthenticated if the principal's certificate, issued at that time, is revoked.
  // Thread-safe; does not block.
  absl::Status CheckRevoked(const Principal& principal, absl::Time issued) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Called by gRPC.
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request, v1::JoinResponse* reply) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* reply) override;
  grpc::ServerUnaryReactor* CreateJoinToken(grpc::CallbackServerContext* context,
                                            const v1::CreateJoinTokenRequest* request,
                                            v1::CreateJoinTokenResponse* reply) override;
  grpc::ServerUnaryReactor* Revoke(grpc::CallbackServerContext* context,
                                   const v1::RevokeRequest* request,
                                   v1::Revocation* reply) override;
  grpc::ServerUnaryReactor* ListRevoked(grpc::CallbackServerContext* context,
                                        const v1::ListRevokedRequest* request,
                                        v1::ListRevokedResponse* reply) override;
  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context,
                                   const v1::WhoAmIRequest* request,
                                   v1::WhoAmIResponse* reply) override;

 private:
  using Answer = Mutations::Answer;

  // On the loop.
  void DoJoin(const v1::JoinRequest& request, const std::string& peer, v1::JoinResponse* reply,
              const Answer& answer);
  grpc::Status DoRenew(const std::optional<Certificate>& own, const v1::RenewRequest& request,
                       v1::RenewResponse* reply);
  void DoCreateToken(const v1::CreateJoinTokenRequest& request, v1::CreateJoinTokenResponse* reply,
                     const Answer& answer);
  void DoRevoke(const v1::RevokeRequest& request, v1::Revocation* reply, const Answer& answer);
  // Signs a certificate, or returns why not. Requires: there is an authority.
  grpc::Status Sign(const Principal& principal, const std::string& csr_pem, absl::Time now,
                    std::string* certificate_pem) const;
  grpc::Status CheckAuthority() const;

  EventLoop* const loop_;
  ControlLoop* const control_;
  CallLimits* const limits_;
  const Options options_;
  Mutations mutations_;  // On the loop, as is the next member.
  Identities identities_;

  mutable absl::Mutex mutex_;
  Identities::Revocations revoked_ ABSL_GUARDED_BY(mutex_);  // Copy of those in identities_.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_IDENTITY_SERVICE_H_
