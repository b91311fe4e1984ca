// What a certificate says, and whether it holds.
//
// Times are arguments; those in a certificate have a resolution of a second.
//
// Thread-safe.
#ifndef COMMON_TLS_CERTIFICATE_H_
#define COMMON_TLS_CERTIFICATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"

namespace paceline {

// A certificate is valid from so long before it was issued, for machines whose clocks are late.
inline constexpr absl::Duration kClockAllowance = absl::Minutes(5);

struct Certificate {
  Principal principal;
  absl::Time not_before;
  absl::Time not_after;
  std::vector<std::string> hosts;  // DNS names and addresses, of a controller's.
  std::string issuer;              // Name of the authority.
  std::string fingerprint;         // SHA-256 of all of it, 64 hexadecimal digits.

  absl::Time issued() const { return not_before + kClockAllowance; }
};

// InvalidArgument: no certificate, or not exactly one URI in it, or one that names no principal.
absl::StatusOr<Certificate> ReadCertificate(absl::string_view pem);

struct CertificateTimes {
  absl::Time issued;  // By the clock of who signed it.
  absl::Time end;     // It holds up to then.
};
// InvalidArgument: no certificate.
absl::StatusOr<CertificateTimes> TimesOf(absl::string_view pem);

// OK when the authority of `ca_pem` (one or several certificates) has signed it and both hold at
// `now`. FailedPrecondition: another authority has. OutOfRange: not valid yet, or no longer; says
// what this machine's clock says, which is taken to be `now`.
absl::Status CheckCertificate(absl::string_view pem, absl::string_view ca_pem, absl::Time now);

// "2026-03-01 12:00:00 UTC"
std::string TimeText(absl::Time time);

}  // namespace paceline

#endif  // COMMON_TLS_CERTIFICATE_H_
