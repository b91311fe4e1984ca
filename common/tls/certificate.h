// Reads certificates and checks their validity.
//
// Times are arguments; a certificate's times have a resolution of one second.
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

// A certificate is valid from this long before it was issued, for machines with slow clocks.
inline constexpr absl::Duration kClockAllowance = absl::Minutes(5);

struct Certificate {
  Principal principal;
  absl::Time not_before;
  absl::Time not_after;
  std::vector<std::string> hosts;  // DNS names and addresses; for controllers.
  std::string issuer;              // Name of the authority.
  std::string fingerprint;         // SHA-256 of the certificate, 64 hexadecimal digits.

  absl::Time issued() const { return not_before + kClockAllowance; }
};

// InvalidArgument: not a certificate, not exactly one URI in it, or a URI that is no principal.
absl::StatusOr<Certificate> ReadCertificate(absl::string_view pem);

struct CertificateTimes {
  absl::Time issued;  // By the clock of the signer.
  absl::Time end;     // Valid until then.
};
// InvalidArgument: not a certificate.
absl::StatusOr<CertificateTimes> TimesOf(absl::string_view pem);

// OK when the authority in `ca_pem` (one or several certificates) has signed it and both are valid
// at `now`. FailedPrecondition: another authority signed it. OutOfRange: not valid yet or expired;
// the message gives `now` as this machine's time.
absl::Status CheckCertificate(absl::string_view pem, absl::string_view ca_pem, absl::Time now);

// "2026-03-01 12:00:00 UTC"
std::string TimeText(absl::Time time);

}  // namespace paceline

#endif  // COMMON_TLS_CERTIFICATE_H_
