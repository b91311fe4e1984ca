// The cluster's certificate authority: a key and a certificate that it signs itself.
//
// It decides what a certificate says; of a request it takes the public key alone.
//
// Thread-safe once made.
#ifndef COMMON_TLS_CERTIFICATE_AUTHORITY_H_
#define COMMON_TLS_CERTIFICATE_AUTHORITY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"

namespace paceline {

// For how long certificates hold. Workers renew theirs; people are asked for new ones.
inline constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 3650);
inline constexpr absl::Duration kControllerLife = absl::Hours(24 * 365);
inline constexpr absl::Duration kUserLife = absl::Hours(24 * 90);
inline constexpr absl::Duration kWorkerLife = absl::Hours(24);

absl::Duration UsualLife(Role role);

class CertificateAuthority {
 public:
  // What a certificate is to say.
  struct Grant {
    Principal principal;
    std::vector<std::string> hosts = {};  // DNS names and addresses; of a controller only.
    absl::Duration life;                  // Cut at the authority's own end.
  };

  // A new one, of that name.
  static absl::StatusOr<CertificateAuthority> Make(const std::string& name, absl::Time now,
                                                   absl::Duration life = kAuthorityLife);

  // Out of PEM. InvalidArgument: damaged, or they do not belong together.
  static absl::StatusOr<CertificateAuthority> FromPem(std::string certificate_pem,
                                                      std::string key_pem);

  // Reads `dir`/ca.pem and `dir`/ca.key. NotFound, naming the file; PermissionDenied when others
  // may read the key; InvalidArgument as above.
  static absl::StatusOr<CertificateAuthority> Load(const std::string& dir);

  // Writes those two. FailedPrecondition when `dir` has one already; errors of AtomicFile.
  absl::Status Save(const std::string& dir) const;

  // A certificate for the key that has signed the request. Controllers may serve and call, all
  // others only call. InvalidArgument: a request that does not hold, a key that is no ECDSA P-256,
  // hosts that are none, or hosts of somebody who is no controller.
  absl::StatusOr<std::string> Sign(absl::string_view request_pem, const Grant& grant,
                                   absl::Time now) const;

  const std::string& certificate_pem() const { return certificate_pem_; }
  const std::string& key_pem() const { return key_pem_; }

 private:
  CertificateAuthority(std::string certificate_pem, std::string key_pem)
      : certificate_pem_(std::move(certificate_pem)), key_pem_(std::move(key_pem)) {}

  std::string certificate_pem_;
  std::string key_pem_;
};

}  // namespace paceline

#endif  // COMMON_TLS_CERTIFICATE_AUTHORITY_H_
