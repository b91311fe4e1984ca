// The cluster's certificate authority: a key and a self-signed certificate.
//
// It decides the contents of a certificate; from a request it only takes the public key.
//
// Thread-safe once created.
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

// How long certificates are valid. Workers renew theirs; people get new ones on request.
inline constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 3650);
inline constexpr absl::Duration kControllerLife = absl::Hours(24 * 365);
inline constexpr absl::Duration kUserLife = absl::Hours(24 * 90);
inline constexpr absl::Duration kWorkerLife = absl::Hours(24);

absl::Duration UsualLife(Role role);

class CertificateAuthority {
 public:
  // The contents of a certificate.
  struct Grant {
    Principal principal;
    std::vector<std::string> hosts = {};  // DNS names and addresses; only for controllers.
    absl::Duration life;                  // Ends with the authority's at the latest.
  };

  // Makes a new authority with this name.
  static absl::StatusOr<CertificateAuthority> Make(const std::string& name, absl::Time now,
                                                   absl::Duration life = kAuthorityLife);

  // Reads it from PEM. InvalidArgument: damaged, or certificate and key do not match.
  static absl::StatusOr<CertificateAuthority> FromPem(std::string certificate_pem,
                                                      std::string key_pem);

  // Reads `dir`/ca.pem and `dir`/ca.key. NotFound, naming the file; PermissionDenied when others
  // may read the key; InvalidArgument as above.
  static absl::StatusOr<CertificateAuthority> Load(const std::string& dir);

  // Writes both files. FailedPrecondition when `dir` has one already; errors of AtomicFile.
  absl::Status Save(const std::string& dir) const;

  // Returns a certificate for the key that signed the request. Controllers may serve and call, all
  // others only call. InvalidArgument: an invalid request, a key that is not ECDSA P-256, invalid
  // hosts, or hosts for a principal that is no controller.
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
