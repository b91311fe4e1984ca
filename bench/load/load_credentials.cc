#include "bench/load/load_credentials.h"

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <utility>

#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/identity/principal.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/key_and_request.h"

namespace paceline {
namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

absl::StatusOr<Credentials> Issue(const CertificateAuthority& authority,
                                  const Principal& principal) {
  PACELINE_ASSIGN_OR_RETURN(const std::string key, NewKey());
  PACELINE_ASSIGN_OR_RETURN(const std::string request, MakeRequest(key, principal.name));
  const CertificateAuthority::Grant grant = {principal, {}, UsualLife(principal.role)};
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.certificate_pem();
  options.pem_private_key = key;
  PACELINE_ASSIGN_OR_RETURN(options.pem_cert_chain, authority.Sign(request, grant, absl::Now()));
  return grpc::SslCredentials(options);
}

LoadCredentials InPlainText(size_t nodes) {
  const Credentials anybody = grpc::InsecureChannelCredentials();
  return {std::vector<Credentials>(nodes, anybody), anybody, anybody};
}

}  // namespace

absl::StatusOr<LoadCredentials> MakeLoadCredentials(const std::string& pki,
                                                    const std::vector<std::string>& nodes) {
  if (pki.empty()) return InPlainText(nodes.size());
  PACELINE_ASSIGN_OR_RETURN(const auto authority, CertificateAuthority::Load(pki + "/ca"));
  LoadCredentials identities;
  for (const std::string& node : nodes) {
    PACELINE_ASSIGN_OR_RETURN(Credentials issued, Issue(authority, {Role::kWorker, node}));
    identities.nodes.push_back(std::move(issued));
  }
  PACELINE_ASSIGN_OR_RETURN(identities.users, Issue(authority, {Role::kOperator, "users"}));
  PACELINE_ASSIGN_OR_RETURN(identities.watchers, Issue(authority, {Role::kViewer, "watchers"}));
  return identities;
}

}  // namespace paceline
