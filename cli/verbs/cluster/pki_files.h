// File operations of the `paceline pki` verbs.
#ifndef CLI_VERBS_CLUSTER_PKI_FILES_H_
#define CLI_VERBS_CLUSTER_PKI_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"

namespace paceline {

// Makes a key and a certificate, and writes both along with the authority's certificate:
// DIR/key.pem, DIR/cert.pem, DIR/ca.pem. FailedPrecondition if DIR already has a certificate.
absl::Status IssueInto(const CertificateAuthority& authority,
                       const CertificateAuthority::Grant& grant, const std::string& dir,
                       absl::Time now);

// Makes a certificate for the principal and hosts of the one in DIR, with the same key or a new
// one. `life` zero: the usual life for the role. Returns the new certificate. FailedPrecondition,
// without writing anything, if the authority has not signed the one in DIR.
absl::StatusOr<Certificate> RotateIn(const CertificateAuthority& authority, const std::string& dir,
                                     bool new_key, absl::Duration life, absl::Time now);

// Returns "paceline://worker/w1" for that or for "worker/w1". InvalidArgument for other text.
absl::StatusOr<std::string> PrincipalUriOf(const std::string& text);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_PKI_FILES_H_
