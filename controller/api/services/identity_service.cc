#include "controller/api/services/identity_service.h"

#include <google/protobuf/message.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/server_context.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/tls/key_and_request.h"
#include "controller/api/admission/caller.h"
#include "controller/api/admission/request_limits.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/store/records.h"
#include "controller/wire/convert.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr size_t kMostTokenBytes = 256;
constexpr char kControllerStays[] =
    "is a controller's, which would serve on: workers and users know no revocations. A stolen key "
    "ends with its authority (docs/operations.md)";

const char* ReasonOf(Identities::JoinVerdict verdict) {
  switch (verdict) {
    case Identities::JoinVerdict::kUnknown:
      return "TOKEN_UNKNOWN";
    case Identities::JoinVerdict::kUsed:
      return "TOKEN_USED";
    case Identities::JoinVerdict::kExpired:
      return "TOKEN_EXPIRED";
    case Identities::JoinVerdict::kAnotherNode:
      return "TOKEN_FOR_ANOTHER_NODE";
    case Identities::JoinVerdict::kJustRevoked:
      return "REVOKED_JUST_NOW";
    case Identities::JoinVerdict::kFine:
    case Identities::JoinVerdict::kAgain:
      return "";
  }
  return "";
}

void CheckNodeName(const std::string& node, std::vector<SpecProblem>* problems) {
  if (ParsePrincipalUri(WorkerUri(NodeName(node))).ok()) return;
  problems->push_back({"node", "must be the name of a node: 1 to 63 of [A-Za-z0-9-_.]"});
}

void CheckCsr(const std::string& csr_pem, std::vector<SpecProblem>* problems) {
  if (!csr_pem.empty() && csr_pem.size() <= kMaxCsrBytes && KeyDigest(csr_pem).ok()) return;
  problems->push_back({"csr_pem", "must be a certificate request in PEM of at most 16 KiB"});
}

std::string RevokedText(const std::string& principal, const Revocation& revocation) {
  return absl::StrCat("the certificates of ", principal, " issued before ",
                      TimeText(revocation.before), " are revoked (", revocation.reason,
                      "): a node joins again by a new token of `paceline pki token`, a person gets "
                      "a new certificate by `paceline pki issue`");
}

v1::Revocation ToProto(const std::string& principal, const Revocation& revocation) {
  v1::Revocation out;
  out.set_principal(principal);
  *out.mutable_before() = paceline::ToProto(revocation.before);
  out.set_reason(revocation.reason);
  out.set_owner(revocation.owner);
  return out;
}

// Runs `act` on the loop and finishes the call with its answer, unless the caller asks too often or
// its request is too large.
template <typename Act>
grpc::ServerUnaryReactor* OnLoop(EventLoop* loop, CallLimits* limits,
                                 grpc::CallbackServerContext* context,
                                 const google::protobuf::Message& request, Act act) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits->AdmitMutation(*context, request, reactor)) return reactor;
  loop->Post([reactor, act = std::move(act)] {
    act([reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

}  // namespace

std::optional<Certificate> PeerCertificate(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr) return std::nullopt;
  const std::vector<grpc::string_ref> pem =
      peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return std::nullopt;
  absl::StatusOr<Certificate> read = ReadCertificate({pem[0].data(), pem[0].size()});
  return read.ok() ? std::optional<Certificate>(*std::move(read)) : std::nullopt;
}

IdentityService::IdentityService(EventLoop* loop, ControlLoop* control, ControllerMetrics* metrics,
                                 CallLimits* limits, Identities identities, Options options)
    : loop_(loop),
      control_(control),
      limits_(limits),
      options_(std::move(options)),
      mutations_(control, metrics),
      identities_(std::move(identities)),
      revoked_(identities_.revocations()) {}

absl::Status IdentityService::CheckRevoked(const Principal& principal, absl::Time issued) const {
  const std::string uri = PrincipalUri(principal);
  absl::MutexLock lock(&mutex_);
  const auto found = revoked_.find(uri);
  if (found == revoked_.end() || issued >= found->second.before) return absl::OkStatus();
  return absl::UnauthenticatedError(RevokedText(uri, found->second));
}

grpc::Status IdentityService::CheckAuthority() const {
  if (options_.authority.has_value()) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "NO_AUTHORITY",
                   "this controller does not hold the authority's key, so nobody gets certificates "
                   "from it: start it with --ca-dir, or use `paceline pki issue` where the key is");
}

grpc::Status IdentityService::Sign(const Principal& principal, const std::string& csr_pem,
                                   absl::Time now, std::string* certificate_pem) const {
  const absl::Duration life =
      principal.role == Role::kWorker ? options_.worker_life : UsualLife(principal.role);
  absl::StatusOr<std::string> made = options_.authority->Sign(csr_pem, {principal, {}, life}, now);
  if (!made.ok()) return RequestError({{"csr_pem", std::string(made.status().message())}});
  *certificate_pem = *std::move(made);
  return grpc::Status::OK;
}

void IdentityService::DoJoin(const v1::JoinRequest& request, const std::string& peer,
                             v1::JoinResponse* reply, const Answer& answer) {
  std::vector<SpecProblem> problems;
  CheckNodeName(request.node(), &problems);
  CheckCsr(request.csr_pem(), &problems);
  if (request.token().size() > kMostTokenBytes) problems.push_back({"token", "is too long"});
  grpc::Status status = RequestError(problems);
  if (status.ok()) status = CheckAuthority();
  if (!status.ok()) return answer(status);
  const NodeName node(request.node());
  const std::string digest = Sha256Hex(request.token());
  const std::string key = *KeyDigest(request.csr_pem());
  const absl::Time now = ControlLoop::Now().wall;
  const Identities::JoinVerdict verdict = identities_.CheckJoin(digest, node, key, now);
  if (verdict != Identities::JoinVerdict::kFine && verdict != Identities::JoinVerdict::kAgain) {
    PACELINE_LOG(WARNING) << "join_refused node=" << node.value() << " peer=" << peer
                          << " reason=" << ReasonOf(verdict);
    return answer(MakeError(verdict == Identities::JoinVerdict::kJustRevoked
                                ? grpc::StatusCode::UNAVAILABLE
                                : grpc::StatusCode::UNAUTHENTICATED,
                            ReasonOf(verdict), JoinRefusalText(verdict, node)));
  }
  // The token decides which node this is; what else the request says is ignored.
  status =
      Sign({Role::kWorker, node.value()}, request.csr_pem(), now, reply->mutable_certificate_pem());
  if (!status.ok()) return answer(status);
  reply->set_ca_pem(options_.authority->certificate_pem());
  WriteBatch batch;
  Write(identities_.UseToken(digest, key, now), identities_, &batch);
  PACELINE_LOG(INFO) << "node_joined node=" << node.value() << " peer=" << peer;
  control_->Store(std::nullopt, std::move(batch),
                  mutations_.Reply(answer, [] { return grpc::Status::OK; }));
}

grpc::Status IdentityService::DoRenew(const std::optional<Certificate>& own,
                                      const v1::RenewRequest& request, v1::RenewResponse* reply) {
  if (!own.has_value()) {
    return MakeError(grpc::StatusCode::UNAUTHENTICATED, "NO_CERTIFICATE",
                     "only who shows a certificate can renew it");
  }
  if (own->principal.role == Role::kController) {
    return MakeError(grpc::StatusCode::PERMISSION_DENIED, "NOT_FOR_CONTROLLERS",
                     "a controller's certificate is renewed with `paceline pki rotate --ca-dir`");
  }
  std::vector<SpecProblem> problems;
  CheckCsr(request.csr_pem(), &problems);
  grpc::Status status = RequestError(problems);
  if (status.ok()) status = CheckAuthority();
  const absl::Time now = ControlLoop::Now().wall;
  if (status.ok() && identities_.Refuses(PrincipalUri(own->principal), own->issued()) != nullptr) {
    status = MakeError(grpc::StatusCode::UNAUTHENTICATED, "REVOKED",
                       std::string(CheckRevoked(own->principal, own->issued()).message()));
  }
  if (status.ok()) {
    status = Sign(own->principal, request.csr_pem(), now, reply->mutable_certificate_pem());
  }
  if (!status.ok()) return status;
  reply->set_ca_pem(options_.authority->certificate_pem());
  PACELINE_LOG(INFO) << "certificate_renewed principal=" << PrincipalUri(own->principal);
  return status;
}

void IdentityService::DoCreateToken(const v1::CreateJoinTokenRequest& request,
                                    v1::CreateJoinTokenResponse* reply, const Answer& answer) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/true);
  CheckNodeName(request.node(), &problems);
  const double longest = absl::ToDoubleSeconds(kLongestTokenLife);
  if (!(request.ttl_s() >= 0 && request.ttl_s() <= longest)) {
    problems.push_back({"ttl_s", absl::StrCat("must be 0 to ", longest, " seconds")});
  }
  grpc::Status status = RequestError(problems);
  if (status.ok()) status = CheckAuthority();
  if (!status.ok()) return answer(status);
  const auto make = [&](const std::optional<ControlLoop::RequestId>& id) {
    absl::StatusOr<std::string> secret = NewSecret();
    if (!secret.ok()) {
      return answer(MakeError(grpc::StatusCode::UNAVAILABLE, "NO_RANDOMNESS",
                              std::string(secret.status().message())));
    }
    const absl::Time now = ControlLoop::Now().wall;
    const absl::Duration life =
        request.ttl_s() == 0 ? kUsualTokenLife : absl::Seconds(request.ttl_s());
    WriteBatch batch;
    Write(identities_.AddToken(
              Sha256Hex(*secret),
              {NodeName(request.node()), now, now + life, request.owner(), request.request_id()},
              now),
          identities_, &batch);
    PACELINE_LOG(INFO) << "join_token node=" << request.node() << " owner=" << request.owner();
    reply->set_token(*secret);
    *reply->mutable_expire_time() = paceline::ToProto(now + life);
    control_->Store(id, std::move(batch),
                    mutations_.Reply(answer, [] { return grpc::Status::OK; }));
  };
  mutations_.Once(
      request.request_id(),
      Fingerprint(
          absl::StrCat("token ", request.node(), " ", request.ttl_s(), " ", request.owner())),
      answer, [&](const RequestLog::Entry&) { make(std::nullopt); },
      [&](const ControlLoop::RequestId& id) { make(id); });
}

void IdentityService::DoRevoke(const v1::RevokeRequest& request, v1::Revocation* reply,
                               const Answer& answer) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/true);
  for (SpecProblem& problem : CheckReason(request.reason())) problems.push_back(problem);
  const absl::StatusOr<Principal> principal = ParsePrincipalUri(request.principal());
  if (!principal.ok()) {
    problems.push_back({"principal", std::string(principal.status().message())});
  } else if (principal->role == Role::kController) {
    problems.push_back({"principal", kControllerStays});
  }
  const grpc::Status valid = RequestError(problems);
  if (!valid.ok()) return answer(valid);
  const std::string uri = PrincipalUri(*principal);
  const CommitQueue::Then then = mutations_.Reply(answer, [this, uri, reply] {
    *reply = ToProto(uri, identities_.revocations().at(uri));
    return grpc::Status::OK;
  });
  mutations_.Once(
      request.request_id(),
      Fingerprint(absl::StrCat("revoke ", uri, " ", request.owner(), " ", request.reason())),
      answer, [&](const RequestLog::Entry&) { control_->WhenDurable(then); },
      [&](const ControlLoop::RequestId& id) {
        PACELINE_LOG(WARNING) << "revoked principal=" << uri << " owner=" << request.owner();
        WriteBatch batch;
        Write(identities_.Revoke(uri, request.reason(), request.owner(), ControlLoop::Now().wall),
              identities_, &batch);
        {
          // Takes effect now, before it is durable: refusing too early is safe.
          absl::MutexLock lock(&mutex_);
          revoked_ = identities_.revocations();
        }
        control_->Store(id, std::move(batch), then);
        if (options_.revoked) {
          options_.revoked(*principal, RevokedText(uri, identities_.revocations().at(uri)));
        }
      });
}

grpc::ServerUnaryReactor* IdentityService::Join(grpc::CallbackServerContext* context,
                                                const v1::JoinRequest* request,
                                                v1::JoinResponse* reply) {
  return OnLoop(
      loop_, limits_, context, *request,
      [=, peer = context->peer()](const Answer& answer) { DoJoin(*request, peer, reply, answer); });
}

grpc::ServerUnaryReactor* IdentityService::Renew(grpc::CallbackServerContext* context,
                                                 const v1::RenewRequest* request,
                                                 v1::RenewResponse* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=, own = PeerCertificate(*context)](const Answer& answer) {
                  answer(DoRenew(own, *request, reply));
                });
}

grpc::ServerUnaryReactor* IdentityService::CreateJoinToken(
    grpc::CallbackServerContext* context, const v1::CreateJoinTokenRequest* request,
    v1::CreateJoinTokenResponse* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoCreateToken(*request, reply, answer); });
}

grpc::ServerUnaryReactor* IdentityService::Revoke(grpc::CallbackServerContext* context,
                                                  const v1::RevokeRequest* request,
                                                  v1::Revocation* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoRevoke(*request, reply, answer); });
}

grpc::ServerUnaryReactor* IdentityService::ListRevoked(grpc::CallbackServerContext* context,
                                                       const v1::ListRevokedRequest*,
                                                       v1::ListRevokedResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=] {
    for (const auto& [principal, revocation] : identities_.revocations()) {
      *reply->add_revocations() = ToProto(principal, revocation);
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* IdentityService::WhoAmI(grpc::CallbackServerContext* context,
                                                  const v1::WhoAmIRequest*,
                                                  v1::WhoAmIResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reply->set_plaintext(options_.plaintext);
  const Principal caller = CallerOf(*context);
  if (caller.role != Role::kNone) reply->set_role(std::string(RoleName(caller.role)));
  if (!options_.plaintext && caller.role != Role::kNone) {
    reply->set_principal(PrincipalUri(caller));
    const std::optional<Certificate> own = PeerCertificate(*context);
    if (own.has_value()) *reply->mutable_expire_time() = paceline::ToProto(own->not_after);
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace paceline
