#include "controller/api/admission/access.h"

#include <grpc/grpc_security_constants.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

namespace paceline {
namespace {

// gRPC's metadata processor finds the method of a call under this key.
constexpr char kPathMetadata[] = ":path";
constexpr absl::string_view kBearer = "bearer ";
constexpr char kAskAdmin[] = "an admin can make both";

std::string TextOf(const grpc::string_ref& text) { return std::string(text.data(), text.size()); }

std::vector<std::string> PropertiesOf(const grpc::AuthContext& peer, const char* name) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : peer.FindPropertyValues(name)) {
    values.push_back(TextOf(value));
  }
  return values;
}

std::string NeedText(const MethodRule& rule) {
  switch (rule.role) {
    case Role::kWorker:
      return "is for workers";
    case Role::kController:
      return "is for controllers";
    default:
      return absl::StrCat("needs the role ", RoleName(rule.role));
  }
}

class AccessProcessor : public grpc::AuthMetadataProcessor {
 public:
  explicit AccessProcessor(Access* access) : access_(access) {}

  bool IsBlocking() const override { return false; }

  // Does not change `context`, which all calls of the connection share.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    return access_->Check(FactsOf(metadata, *context), absl::Now());
  }

 private:
  Access* const access_;
};

}  // namespace

CallFacts FactsOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                  const grpc::AuthContext& peer) {
  CallFacts facts;
  const auto path = metadata.find(kPathMetadata);
  if (path != metadata.end()) facts.method = TextOf(path->second);
  facts.uris = PropertiesOf(peer, GRPC_PEER_URI_PROPERTY_NAME);
  facts.certificate = absl::StrJoin(PropertiesOf(peer, GRPC_X509_PEM_CERT_PROPERTY_NAME), "");
  const auto [begin, end] = metadata.equal_range(kAuthorizationMetadata);
  for (auto it = begin; it != end; ++it) facts.authorizations.push_back(TextOf(it->second));
  return facts;
}

Access::Access(std::unique_ptr<UserTokens> tokens, Revocations revocations, CallAdmission admit,
               AccessMetrics* metrics, AuditLog* audit)
    : tokens_(std::move(tokens)),
      revocations_(std::move(revocations)),
      admit_(std::move(admit)),
      metrics_(metrics),
      audit_(audit) {}

absl::Status Access::CheckRevoked(const Principal& principal, absl::Time issued_at,
                                  AccessRefusal* refusal) const {
  if (revocations_.check == nullptr) return absl::OkStatus();
  const absl::Status revoked = revocations_.check(principal, issued_at);
  if (revoked.ok()) return absl::OkStatus();
  *refusal = AccessRefusal::kRevoked;
  return absl::UnauthenticatedError(
      absl::StrCat(PrincipalText(principal), " is revoked: ", revoked.message()));
}

absl::StatusOr<Principal> Access::OfCertificate(const CallFacts& facts, absl::Time now,
                                                AccessRefusal* refusal) const {
  *refusal = AccessRefusal::kBadCertificate;
  if (facts.uris.size() != 1) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the client's certificate has ", facts.uris.size(),
        " URI names, and must have one, paceline://ROLE/NAME: make it with paceline pki issue"));
  }
  const absl::StatusOr<Principal> principal = ParsePrincipalUri(facts.uris[0]);
  if (!principal.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the client's certificate: ", principal.status().message()));
  }
  if (revocations_.check == nullptr) return *principal;
  const absl::StatusOr<CertificateTimes> times = revocations_.times(facts.certificate);
  if (!times.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the client's certificate: ", times.status().message()));
  }
  // It was valid when the connection was made, but may have expired since.
  if (now > times->end) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the certificate of ", PrincipalText(*principal), " has expired on ", TimeText(times->end),
        "; the controller's clock says ", TimeText(now), ": connect with a new one"));
  }
  const absl::Status revoked = CheckRevoked(*principal, times->issued, refusal);
  if (!revoked.ok()) return revoked;
  return *principal;
}

absl::StatusOr<Principal> Access::OfToken(const CallFacts& facts, absl::Time now,
                                          AccessRefusal* refusal) const {
  *refusal = AccessRefusal::kUnknownToken;
  const std::string& text = facts.authorizations[0];
  if (facts.authorizations.size() != 1 || !absl::StartsWithIgnoreCase(text, kBearer)) {
    return absl::UnauthenticatedError(
        "the metadata authorization must be there once, as: Bearer TOKEN");
  }
  const absl::string_view token =
      absl::StripAsciiWhitespace(absl::string_view(text).substr(kBearer.size()));
  const std::optional<Principal> user =
      tokens_ == nullptr ? std::nullopt : tokens_->Find(token, now);
  if (!user.has_value()) {
    return absl::UnauthenticatedError(
        "the token is not one of this controller's (--user-tokens): ask an admin for a new one");
  }
  const absl::Status revoked = CheckRevoked(*user, absl::InfinitePast(), refusal);
  if (!revoked.ok()) return revoked;
  return *user;
}

absl::StatusOr<Principal> Access::Identify(const CallFacts& facts, absl::Time now,
                                           AccessRefusal* refusal) const {
  if (!facts.certificate.empty() || !facts.uris.empty()) return OfCertificate(facts, now, refusal);
  if (!facts.authorizations.empty()) return OfToken(facts, now, refusal);
  return Principal();
}

AccessVerdict Access::Judge(const CallFacts& facts, absl::Time now) const {
  AccessVerdict verdict;
  const auto refuse = [&verdict](AccessRefusal refusal, grpc::StatusCode code,
                                 const std::string& message) {
    verdict.refusal = refusal;
    verdict.status = grpc::Status(code, message);
    return verdict;
  };
  const MethodRule* rule = FindRule(facts.method);
  AccessRefusal refusal = AccessRefusal::kNoIdentity;
  const absl::StatusOr<Principal> caller = Identify(facts, now, &refusal);
  if (caller.ok()) verdict.caller = *caller;
  if (rule == nullptr) {
    return refuse(AccessRefusal::kUnknownMethod, grpc::StatusCode::UNIMPLEMENTED,
                  "this controller has no such method: its version may be another");
  }
  if (MayCall(Role::kNone, *rule)) return verdict;
  if (!caller.ok()) {
    return refuse(refusal, grpc::StatusCode::UNAUTHENTICATED,
                  std::string(caller.status().message()));
  }
  if (MayCall(caller->role, *rule)) return verdict;
  if (caller->role == Role::kNone) {
    return refuse(AccessRefusal::kNoIdentity, grpc::StatusCode::UNAUTHENTICATED,
                  absl::StrCat("the controller does not know who asks: give a client certificate "
                               "or a token; ",
                               kAskAdmin));
  }
  return refuse(
      AccessRefusal::kRole, grpc::StatusCode::PERMISSION_DENIED,
      absl::StrCat(PrincipalText(*caller), " may not call ", facts.method, ", which ",
                   NeedText(*rule),
                   ": ask somebody who has it, or for another certificate or token; ", kAskAdmin));
}

grpc::Status Access::Check(const CallFacts& facts, absl::Time now) {
  const AccessVerdict verdict = Judge(facts, now);
  grpc::Status status = verdict.status;
  if (verdict.refusal.has_value()) {
    metrics_->Refused(*verdict.refusal);
  } else if (verdict.caller.role != Role::kNone) {
    status = admit_(verdict.caller);
  }
  if (status.ok()) return status;
  const bool recorded = [&] {
    absl::MutexLock lock(&mutex_);
    return budget_.Take(verdict.caller, now);
  }();
  if (recorded) {
    AuditRecord record;
    record.time = now;
    record.method = facts.method;
    record.caller = verdict.caller;
    record.request = "{}";
    record.status = status;
    audit_->Write(AuditLine(record));
  }
  return status;
}

Principal Access::FindCaller(const grpc::ServerContextBase& context) const {
  AccessRefusal refusal = AccessRefusal::kNoIdentity;
  const absl::StatusOr<Principal> caller =
      Identify(FactsOf(context.client_metadata(), *context.auth_context()), absl::Now(), &refusal);
  return caller.ok() ? *caller : Principal();
}

std::shared_ptr<grpc::AuthMetadataProcessor> Access::NewProcessor() {
  return std::make_shared<AccessProcessor>(this);
}

}  // namespace paceline
