#include "cli/verbs/cluster/pki_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"

namespace paceline {
namespace {

absl::StatusOr<std::string> SignedFor(const CertificateAuthority& authority,
                                      const CertificateAuthority::Grant& grant,
                                      const std::string& key, absl::Time now) {
  PACELINE_ASSIGN_OR_RETURN(const std::string request, MakeRequest(key, grant.principal.name));
  return authority.Sign(request, grant, now);
}

}  // namespace

absl::Status IssueInto(const CertificateAuthority& authority,
                       const CertificateAuthority::Grant& grant, const std::string& dir,
                       absl::Time now) {
  const TlsFiles files = FilesIn(dir);
  std::error_code error;
  if (std::filesystem::exists(files.certificate, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.certificate,
                     " is there already: `paceline pki rotate` makes a newer one "
                     "of it, and --out names another folder"));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string key, NewKey());
  PACELINE_ASSIGN_OR_RETURN(const std::string certificate, SignedFor(authority, grant, key, now));
  PACELINE_RETURN_IF_ERROR(WritePrivate(files.key, key));
  PACELINE_RETURN_IF_ERROR(WritePublic(files.ca, authority.certificate_pem()));
  return WritePublic(files.certificate, certificate);
}

absl::StatusOr<Certificate> RotateIn(const CertificateAuthority& authority, const std::string& dir,
                                     bool new_key, absl::Duration life, absl::Time now) {
  const TlsFiles files = FilesIn(dir);
  PACELINE_ASSIGN_OR_RETURN(const std::string pem, ReadWhole(files.certificate));
  PACELINE_ASSIGN_OR_RETURN(const Certificate old, ReadCertificate(pem));
  // Whoever can write this file must not choose whom the authority vouches for. May be expired.
  const absl::Status ours = CheckCertificate(pem, authority.certificate_pem(), old.not_before);
  if (!ours.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.certificate, " is not renewed: ", ours.message()));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string key, new_key ? NewKey() : ReadPrivate(files.key));
  if (life == absl::ZeroDuration()) life = UsualLife(old.principal.role);
  PACELINE_ASSIGN_OR_RETURN(const std::string made,
                            SignedFor(authority, {old.principal, old.hosts, life}, key, now));
  if (new_key) PACELINE_RETURN_IF_ERROR(WritePrivate(files.key, key));
  PACELINE_RETURN_IF_ERROR(WritePublic(files.certificate, made));
  return ReadCertificate(made);
}

absl::StatusOr<std::string> PrincipalUriOf(const std::string& text) {
  const std::string uri =
      absl::StartsWith(text, "paceline://") ? text : absl::StrCat("paceline://", text);
  const absl::StatusOr<Principal> principal = ParsePrincipalUri(uri);
  if (principal.ok()) return PrincipalUri(*principal);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" names nobody: give ROLE/NAME, as in worker/node-7 or viewer/ann"));
}

}  // namespace paceline
