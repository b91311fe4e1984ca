// What the verbs of `paceline pki` do with files.
#ifndef CLI_VERBS_CLUSTER_PKI_FILES_H_
#define CLI_VERBS_CLUSTER_PKI_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"

namespace paceline {

// Makes a key and its certificate, and writes both with that of the authority: DIR/key.pem,
// DIR/cert.pem, DIR/ca.pem. FailedPrecondition when DIR has a certificate already.
absl::Status IssueInto(const CertificateAuthority& authority,
                       const CertificateAuthority::Grant& grant, const std::string& dir,
                       absl::Time now);

// A certificate for the same principal and hosts as that in DIR, of the same key, or of a new one.
// `life` zero: the usual one of the role. Returns what it names. FailedPrecondition, and nothing is
// written, when the authority has not signed that in DIR.
absl::StatusOr<Certificate> RotateIn(const CertificateAuthority& authority, const std::string& dir,
                                     bool new_key, absl::Duration life, absl::Time now);

// "worker/w1" or "paceline://worker/w1" as the latter. InvalidArgument: neither.
absl::StatusOr<std::string> PrincipalUriOf(const std::string& text);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_PKI_FILES_H_
